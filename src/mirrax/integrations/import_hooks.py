"""Import hooks: load an integration after its library."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from typing_extensions import override


def when_imported(library: str, integration: str) -> None:
    """Imports `integration` right after `library`; now, if it is imported already."""
    if library in sys.modules:
        importlib.import_module(integration)
    else:
        sys.meta_path.insert(0, _ImportWatcher(library, integration))


class _ImportWatcher(importlib.abc.MetaPathFinder):
    """Watches for one import; finds nothing itself."""

    def __init__(self, library: str, integration: str) -> None:
        self._library = library
        self._integration = integration

    @override
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._library:
            return None
        # The other finders find the library. It may only be looked for, not imported.
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            self._wrap_loader(spec.loader)
        return spec

    def _wrap_loader(self, loader: importlib.abc.Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # If it raises, the user may retry, for example with another backend.
            execute(module)
            sys.meta_path.remove(self)
            importlib.import_module(self._integration)

        loader.exec_module = exec_module  # type: ignore[method-assign]
