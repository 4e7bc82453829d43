"""Imports of names that stand for other modules, such as `mirrax.tf.keras`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from typing_extensions import override

Import = Callable[[], ModuleType]


class AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of the given names, and of names below them.

    Args:
        aliases: Returns the module, for each name.
        on_missing: Returns the text of the error for a name below an alias that does
            not exist.
    """

    def __init__(
        self,
        aliases: Mapping[str, Import],
        on_missing: Callable[[str], str] = "No module named {!r}".format,
    ) -> None:
        self._aliases = aliases
        self._on_missing = on_missing

    @override
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        is_ours = fullname in self._aliases or self._is_below(fullname)
        return importlib.machinery.ModuleSpec(fullname, self) if is_ours else None

    @override
    def exec_module(self, module: ModuleType) -> None:
        # Python allows a module to replace itself while it is imported.
        sys.modules[module.__name__] = self._find(module.__name__)

    def _is_below(self, fullname: str) -> bool:
        return any(fullname.startswith(f"{name}.") for name in self._aliases)

    def _find(self, fullname: str) -> ModuleType:
        if fullname in self._aliases:
            return self._aliases[fullname]()
        parent, _, child = fullname.rpartition(".")
        name = f"{sys.modules[parent].__name__}.{child}"
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            text = self._on_missing(fullname)
            raise ModuleNotFoundError(text, name=fullname) from None
