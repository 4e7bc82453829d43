"""Advice in errors of XLA that say that the memory of a device is full."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

SHARD_STATE = "`shard_state=True` of the strategy divides variables among its devices"
SHARD = "`strategy.shard(state)` divides arrays among the devices"
LESS_TEMPORARY = (
    "A smaller batch or `mirrax.accumulate_gradients` needs less temporary memory"
)


def advise(error: BaseException, arrays: Iterable[tuple[str, Any]], *ways: str) -> None:
    """Adds to an error what takes most of the memory, if the memory is full.

    XLA may report it later than the call that needs the memory.

    Args:
        arrays: Names and arrays, or their descriptions, with their shardings.
        ways: What helps; what divides arrays is left out if none of these is copied.
    """
    if "Out of memory" not in str(error):
        return
    known = list(arrays)
    can_divide = not known or any(_is_copied(array) for _, array in known)
    sizes = sorted(((bytes_on_device(a), name) for name, a in known), reverse=True)
    largest = ", ".join(f"{name} {in_units(size)}" for size, name in sizes[:3])
    total = in_units(sum(size for size, _ in sizes))
    found = f"on each device, state takes {total}; the largest: {largest}"
    helpful = [way for way in ways if can_divide or way not in (SHARD_STATE, SHARD)]
    error.add_note("[mirrax] " + ". ".join([found] * bool(known) + helpful))


def _is_copied(array: Any) -> bool:
    """Returns whether several devices store the same array."""
    sharding = array.sharding
    return bool(sharding.is_fully_replicated and len(sharding.device_set) > 1)


def bytes_on_device(array: Any) -> int:
    """Returns how many bytes an array takes on each device, also once donated."""
    shape = array.sharding.shard_shape(array.shape)
    return int(math.prod(shape) * array.dtype.itemsize)


def in_units(size: int) -> str:
    """Returns a number of bytes as people read it.

    >>> in_units(500), in_units(75_800_000)
    ('500 B', '75.8 MB')
    """
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
