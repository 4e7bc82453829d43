"""What `from module import *` takes from the modules that make up a namespace."""

from __future__ import annotations

from collections.abc import Container
from typing import Any


def export(module: dict[str, Any], private: Container[str] = ()) -> list[str]:
    """Makes a module export the public names that it defines, and returns them.

    Args:
        module: All names of the module, `globals()`.
        private: Those above its `_PRIVATE` line: imports, and what only other modules
            need.
    """
    # Not `__all__ = ...` in the module: then type checkers would see no names there.
    found = [name for name in module if name not in private and name[0] != "_"]
    return module.setdefault("__all__", found)
