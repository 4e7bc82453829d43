"""Modules of ours that are imported when they are first used.

Reading datasets, joining a cluster and saving checkpoints are half of the package. A
program that does none of it need not wait for their import.
"""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for a module, and imports it for the first attribute that is asked for.

    Type checkers are shown the real import:

        if TYPE_CHECKING:
            from mirrax.input import distribute_dataset
        else:
            distribute_dataset = LazyModule("mirrax.input.distribute_dataset")
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            # Asked for by `copy` and the like, before we know our own name.
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
