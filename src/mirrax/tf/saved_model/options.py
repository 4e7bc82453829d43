"""Names in a saved model, its files, and options, which have no effect."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from mirrax.tf.tensors.tensor import tensor

ASSETS_DIRECTORY = "assets"
SERVING = "serve"
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


class Asset:
    """A file that is copied into the saved models of the objects that hold it.

    Args:
        path: The file.
    """

    def __init__(self, path: Any) -> None:
        self._path = os.fspath(path)

    @property
    def asset_path(self) -> Any:
        """Where the file is, as a tensor; of a loaded model, its copy."""
        return tensor(self._path)

    def __fspath__(self) -> str:
        return self._path
