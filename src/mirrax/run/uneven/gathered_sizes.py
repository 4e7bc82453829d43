"""The sizes of what is gathered, in traces for parts of different shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax

from mirrax.collectives import spmd
from mirrax.context.guards import NotTraceable

T = TypeVar("T")
Gather = Callable[[list[jax.Array], int], list[jax.Array]]


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
    count = max(numbers) + 1
    sizes = _GatheredSizes()
    while True:
        traces = []
        for number in range(count):
            with contextlib.suppress(_UnknownSizes):
                traces.append(trace(number, sizes.seen_by(number)))
        if len(traces) == count:
            return traces
        if traces or not sizes.learn(numbers):
            # Some replicas do not call it: the eager engine says which.
            raise NotTraceable


class _UnknownSizes(Exception):  # noqa: N818 - a signal
    """A trace was abandoned, because the sizes in other traces are not known yet."""


class _GatheredSizes:
    """The sizes of the parts in each `all_gather` of one replica function."""

    def __init__(self) -> None:
        # For each call: for each of its values, the size on every replica.
        self._known: list[list[tuple[int, ...]]] = []
        self._reported: dict[int, list[int]] = {}

    def seen_by(self, number: int) -> Gather:
        """Returns the `all_gather` for one trace."""
        known = iter(self._known)

        def gather(values: list[jax.Array], axis: int) -> list[jax.Array]:
            sizes = next(known, None)
            if sizes is None:
                self._reported[number] = [value.shape[axis] for value in values]
                raise _UnknownSizes
            pairs = zip(values, sizes, strict=True)
            return [spmd.all_gather_uneven(v, axis, column) for v, column in pairs]

        return gather

    def learn(self, numbers: Sequence[int]) -> bool:
        """Stores the reported sizes; returns whether they fit together."""
        reported, self._reported = self._reported, {}
        if len(set(map(len, reported.values()))) > 1:
            return False
        rows = [reported[number] for number in numbers]
        self._known.append(list(zip(*rows, strict=True)))
        return True
