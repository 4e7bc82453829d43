"""Names in a saved model, and options, which have no effect."""

from __future__ import annotations

import dataclasses
from typing import Any

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
SIGNATURE = "signatures."
# What the names of programs for several ranks begin with.
ALTERNATIVE = "{number}|"
CALL = "__call__"


@dataclasses.dataclass(frozen=True)
class SaveOptions:
    """`tf.saved_model.SaveOptions`, whose options have no effect."""

    namespace_whitelist: Any = None
    save_debug_info: bool = False
    function_aliases: Any = None
    experimental_io_device: str | None = None
    experimental_variable_policy: Any = None
    experimental_custom_gradients: bool = True


@dataclasses.dataclass(frozen=True)
class LoadOptions:
    """`tf.saved_model.LoadOptions`, whose options have no effect."""

    allow_partial_checkpoint: bool = False
    experimental_io_device: str | None = None
    experimental_skip_checkpoint: bool = False
    experimental_variable_policy: Any = None
    experimental_load_function_aliases: bool = False
