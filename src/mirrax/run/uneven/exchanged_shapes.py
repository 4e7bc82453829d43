"""Shapes of other replicas' values, in traces for parts of different shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax

from mirrax.context.guards import NotTraceable
from mirrax.values.layouts import ShapesOnReplicas, equal_shapes

T = TypeVar("T")
_Shape = tuple[int, ...]
_Columns = Sequence[Sequence[_Shape]]
"""For each value of one call, its shape on every replica."""


class _UnknownShapes(Exception):  # noqa: N818 - a signal
    """A trace was abandoned, because the shapes in other traces are not known yet."""

    def __init__(self, own: list[_Shape]) -> None:
        super().__init__()
        self.own = own


def traced_with_shapes(
    trace: Callable[[int, ShapesOnReplicas], T], trace_of: Sequence[int]
) -> list[T]:
    """Returns `trace(index, shapes_on_replicas)` for the index of each trace.

    What follows a gather, or a mean over all rows, depends on the shapes of the parts
    on all replicas. A trace that asks for unknown ones is abandoned, and restarted once
    every trace has reported its own.

    Args:
        trace_of: For each replica, the index of its trace.
    """
    if len(set(trace_of)) == 1:
        return [trace(0, equal_shapes)]
    known: list[_Columns] = []
    while True:
        traces: list[T] = []
        reported: dict[int, list[_Shape]] = {}
        for index in sorted(set(trace_of)):
            try:
                traces.append(trace(index, _answers(known)))
            except _UnknownShapes as unknown:
                reported[index] = unknown.own
        if not reported:
            return traces
        if traces or len(set(map(len, reported.values()))) > 1:
            # Some replicas do not call it so: the eager engine says which.
            raise NotTraceable
        known.append(list(zip(*(reported[index] for index in trace_of), strict=True)))


def _answers(known: Sequence[_Columns]) -> ShapesOnReplicas:
    """Returns what answers the questions of one trace, the first of them known."""
    calls = iter(known)

    def shapes_on_replicas(values: Sequence[jax.Array]) -> _Columns:
        columns = next(calls, None)
        if columns is None:
            raise _UnknownShapes([value.shape for value in values])
        return columns

    return shapes_on_replicas
