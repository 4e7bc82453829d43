"""What `from module import *` takes from the modules that make up a namespace."""

from __future__ import annotations

from collections.abc import Container, Iterable


def defined_after(private: Container[str], names: Iterable[str]) -> list[str]:
    """Returns the public names that a module defines below its `_PRIVATE` line.

    Args:
        private: The names above it: imports, and what only other modules need.
        names: All names of the module, `globals()`.
    """
    return [name for name in names if name not in private and name[0] != "_"]
