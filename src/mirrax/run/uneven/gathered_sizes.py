"""The sizes of what is gathered, in traces for parts of different shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax

from mirrax.collectives import spmd
from mirrax.context.guards import NotTraceable

T = TypeVar("T")
Gather = Callable[[list[jax.Array], int], list[jax.Array]]
_Sizes = Sequence[tuple[int, ...]]
"""For each value of one `all_gather`, its size on every replica."""


class _UnknownSizes(Exception):  # noqa: N818 - a signal
    """A trace was abandoned, because the sizes in other traces are not known yet."""

    def __init__(self, own: list[int]) -> None:
        super().__init__()
        self.own = own


def traced_with_sizes(
    trace: Callable[[int, Gather], T], numbers: Sequence[int]
) -> list[T]:
    """Returns `trace(number, all_gather)` for each number.

    What follows an `all_gather` depends on the sizes of the parts on all replicas. A
    trace that reaches one of unknown sizes is abandoned, and restarted once every trace
    has reported its own.

    Args:
        numbers: For each replica, the number of its trace.
    """
    if len(set(numbers)) == 1:
        return [trace(0, spmd.all_gather)]
    known: list[_Sizes] = []
    while True:
        traces: list[T] = []
        reported: dict[int, list[int]] = {}
        for number in sorted(set(numbers)):
            try:
                traces.append(trace(number, _gather_of(known)))
            except _UnknownSizes as unknown:
                reported[number] = unknown.own
        if not reported:
            return traces
        if traces or len(set(map(len, reported.values()))) > 1:
            # Some replicas do not call it so: the eager engine says which.
            raise NotTraceable
        known.append(list(zip(*(reported[number] for number in numbers), strict=True)))


def _gather_of(known: Sequence[_Sizes]) -> Gather:
    """Returns the `all_gather` for one trace, whose first calls have known sizes."""
    calls = iter(known)

    def gather(values: list[jax.Array], axis: int) -> list[jax.Array]:
        sizes = next(calls, None)
        if sizes is None:
            raise _UnknownSizes([value.shape[axis] for value in values])
        pairs = zip(values, sizes, strict=True)
        return [spmd.all_gather_uneven(v, axis, column) for v, column in pairs]

    return gather
