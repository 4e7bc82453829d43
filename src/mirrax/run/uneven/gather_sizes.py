"""Sizes of the parts in each `all_gather` of replicas with different shapes.

The shape of the result depends on all replicas, but each is traced on its own. A trace
that reaches a gather of unknown sizes is abandoned, and restarted once every replica
has reported its size.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from mirrax.collectives import spmd

Gather = Callable[[list[jax.Array], int], list[jax.Array]]


class UnknownSizes(Exception):  # noqa: N818 - a signal to the engine
    """A trace was abandoned, because the sizes on other replicas are not known yet."""


class GatheredSizes:
    """The sizes of the parts in each `all_gather` of one replica function."""

    def __init__(self, num_replicas: int) -> None:
        self._num_replicas = num_replicas
        # For each call: for each replica, the size of each value of the call.
        self._known: list[dict[int, list[int]]] = []
        self._reported: dict[int, list[int]] = {}

    def seen_by(self, number: int) -> Gather:
        """Returns the `all_gather` of replica `number`, for one trace of it."""
        num_calls = 0

        def gather(values: list[jax.Array], axis: int) -> list[jax.Array]:
            nonlocal num_calls
            own = [value.shape[axis] for value in values]
            if num_calls == len(self._known):
                self._reported[number] = own
                raise UnknownSizes
            sizes = self._known[num_calls]
            num_calls += 1
            columns = zip(*(sizes[i] for i in sorted(sizes)), strict=True)
            return [
                spmd.all_gather_uneven(value, axis, column)
                for value, column in zip(values, columns, strict=True)
            ]

        return gather

    def learn(self) -> bool:
        """Stores the reported sizes; returns whether all replicas reported."""
        reported, self._reported = self._reported, {}
        self._known.append(reported)
        counts = {len(sizes) for sizes in reported.values()}
        return len(reported) == self._num_replicas and len(counts) == 1
