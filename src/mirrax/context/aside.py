"""What other libraries keep per thread, set aside while a replica waits for the others.

The replicas of an eager `run` share a thread. A library that notes there which layer is
being called would mistake the call of one replica for that of another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

_keepers: list[Callable[[], AbstractContextManager[None]]] = []
_NOTHING = contextlib.nullcontext()


def register(keeper: Callable[[], AbstractContextManager[None]]) -> None:
    """Lets `keeper()` put a library's notes away, and back at the end of its block."""
    _keepers.append(keeper)


def set_aside() -> AbstractContextManager[object]:
    """Puts away what libraries noted in this thread, for the `with` block."""
    if not _keepers:
        return _NOTHING
    entered = ExitStack()
    for keeper in _keepers:
        entered.enter_context(keeper())
    return entered
