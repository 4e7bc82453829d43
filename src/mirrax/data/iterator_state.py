"""Saved positions of iterators: JSON values with a checksum."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator
from typing import Any

_VERSION = 1


def seal(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a position with a version and a checksum.

    >>> unseal(seal({"step": 3}))
    {'step': 3}
    """
    return {**state, "version": _VERSION, "checksum": _checksum(state)}


def unseal(sealed: Any) -> dict[str, Any]:
    """Returns the position in what `seal` returned; raises if it was changed."""
    if not isinstance(sealed, dict) or sealed.get("version") != _VERSION:
        raise _invalid(sealed, "no position of this version")
    state = {k: v for k, v in sealed.items() if k not in ("version", "checksum")}
    if sealed.get("checksum") != _checksum(state):
        raise _invalid(sealed, "one that was changed")
    return state


@contextlib.contextmanager
def fitting(state: Any) -> Iterator[None]:
    """Raises a ValueError if a position is that of another dataset."""
    try:
        yield
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        if getattr(error, "__notes__", None):
            # Raised by a function of the user.
            raise
        raise _invalid(state, f"one of another dataset ({error!r})") from error


def _checksum(state: dict[str, Any]) -> int:
    try:
        return zlib.crc32(json.dumps(state, sort_keys=True).encode())
    except (TypeError, ValueError, RecursionError):
        return -1


def _invalid(received: Any, what: str) -> ValueError:
    shown = repr(received)
    shown = shown if len(shown) < 200 else f"{shown[:200]}..."
    return ValueError(
        "A position must come from `save_state` of an iterator of the same dataset. "
        f"Received: {what}: {shown}."
    )
