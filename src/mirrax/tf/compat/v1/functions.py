"""Functions that only version 1 has; execution is always eager, as in version 2."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import jax.numpy as jnp

from mirrax.tf.compat.v1.config_proto import ConfigProto
from mirrax.tf.dtypes import float32, float64, int32, int64
from mirrax.tf.namespaces.exports import export
from mirrax.tf.namespaces.missing_names import replacement_of
from mirrax.tf.tensors.creation import cast
from mirrax.tf.tensors.indexed_slices import IndexedSlices
from mirrax.tf.tensors.tensor import operands, tensor

_PRIVATE = frozenset(globals())


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


@contextlib.contextmanager
def colocate_with(op: Any, ignore_existing: bool = False) -> Iterator[None]:
    """Does nothing: values are where the operations on them need them."""
    yield


def div(x: Any, y: Any, name: Any = None) -> Any:
    """Divides as Python 2: integers without a remainder."""
    x, y = operands(x, y)
    is_whole = jnp.issubdtype(jnp.result_type(x, y), jnp.integer)
    return x // y if is_whole else x / y


def _method(name: str) -> Callable[..., Any]:
    return lambda ref, value, *_, **__: getattr(ref, name)(value)


def _scatter(name: str) -> Callable[..., Any]:
    return lambda ref, indices, updates, *_, **__: getattr(ref, name)(
        IndexedSlices(tensor(updates, ref.dtype), tensor(indices))
    )


def _scatter_nd(name: str) -> Callable[..., Any]:
    return lambda ref, indices, updates, *_, **__: getattr(ref, name)(indices, updates)


def _to(dtype: Any) -> Callable[..., Any]:
    return lambda x, name=None: cast(x, dtype)


assign, assign_add, assign_sub = map(_method, ("assign", "assign_add", "assign_sub"))
scatter_add, scatter_sub = map(_scatter, ("scatter_add", "scatter_sub"))
scatter_mul, scatter_div = map(_scatter, ("scatter_mul", "scatter_div"))
scatter_max, scatter_min = map(_scatter, ("scatter_max", "scatter_min"))
scatter_update = _scatter("scatter_update")
scatter_nd_add, scatter_nd_sub = map(_scatter_nd, ("scatter_nd_add", "scatter_nd_sub"))
scatter_nd_update = _scatter_nd("scatter_nd_update")
to_float, to_double, to_int32, to_int64 = map(_to, (float32, float64, int32, int64))


export(globals(), _PRIVATE)
