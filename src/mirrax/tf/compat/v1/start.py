"""Start-up functions of version 1; execution is always eager, as in version 2."""

from __future__ import annotations

from typing import Any, NoReturn

from mirrax.tf.compat.v1.config_proto import ConfigProto
from mirrax.tf.missing_names import replacement_of


def enable_eager_execution(
    config: ConfigProto | None = None,
    device_policy: Any = None,
    execution_mode: Any = None,
) -> None:
    """Applies the configuration; code is always executed eagerly."""
    if config is not None:
        config.apply()


def disable_eager_execution() -> NoReturn:
    """Raises: there are no graphs or sessions."""
    raise NotImplementedError(
        "There are no graphs or sessions: code runs eagerly, or compiled by "
        f"`tf.function`. {replacement_of('tf.compat.v1.Session')}"
    )


def executing_eagerly() -> bool:
    return True


enable_v2_behavior = enable_eager_execution
disable_v2_behavior = disable_eager_execution


def global_variables_initializer() -> None:
    """Does nothing: variables are initialized when they are created."""


local_variables_initializer = global_variables_initializer
tables_initializer = global_variables_initializer


def enable_resource_variables() -> None:
    """Does nothing: version 2 behaves so."""


enable_control_flow_v2 = enable_resource_variables
enable_tensor_equality = enable_resource_variables
enable_v2_tensorshape = enable_resource_variables


def reset_default_graph() -> None:
    """Does nothing: there are no graphs."""


def executing_eagerly_outside_functions() -> bool:
    return True
