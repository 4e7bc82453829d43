"""Modules that are imported when they are first used.

Datasets, clusters and checkpoints are half of the package. A program that uses none of
them need not wait for their import.
"""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """A proxy of a module, which imports it at the first attribute access.

    Type checkers are shown the real import:

        if TYPE_CHECKING:
            from mirrax.input import distribute
        else:
            distribute = LazyModule("mirrax.input.distribute")
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            # `copy` and `pickle` ask for such names before `_name` is set.
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
