"""Going through a dataset, with a position that can be saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.nodes.indexed import IndexedStream
from mirrax.data.nodes.shuffling import Shuffle
from mirrax.data.plan import Node, find, refuse_position, rewritten
from mirrax.trees import Tree
from mirrax.values.driving import Driving

_VERSION = 1
_CHUNK = 256


class DatasetIterator(Driving, Iterator[Tree]):
    """The elements of a dataset, one after another.

    `save_state` gives the position of the next element as plain numbers and lists;
    `restore_state`, on an iterator of the same dataset, goes there.
    """

    def __init__(
        self, plan: Node, iteration: int, on_restore: Callable[[int], None]
    ) -> None:
        self._plan = plan
        self._chunk: Columns | None = None
        self._used = 0
        self._before: Any = None
        self._on_restore = on_restore
        self._start(iteration)

    def __iter__(self) -> DatasetIterator:
        return self

    def __next__(self) -> Tree:
        if self._chunk is None or self._used == cols.num_rows(self._chunk):
            self._before = self._stream.state()
            self._chunk, self._used = self._stream.take(self._limit), 0
            if self._chunk is None:
                raise StopIteration
        leaves = [column[self._used] for column in self._chunk]
        self._used += 1
        return jax.tree.unflatten(self._stream.structure, leaves)

    def save_state(self) -> dict[str, Any]:
        """Returns the position of the next element, as what JSON can hold."""
        used = self._used if self._chunk is not None else 0
        before = self._before if used else self._stream.state()
        return {
            "version": _VERSION,
            "iteration": self._iteration,
            "seeds": [node.seed for node in _shuffles(self._plan)],
            "stream": before,
            "used": used,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Goes to a position that `save_state` gave."""
        if state.get("version") != _VERSION:
            raise ValueError(
                "A position must come from `save_state` of this version. Received: "
                f"{state!r}."
            )
        self._plan = _with_seeds(self._plan, state["seeds"])
        self._start(state["iteration"])
        self._on_restore(state["iteration"])
        self._stream.restore(state["stream"])
        for number in range(state["used"]):
            if next(self, self) is self:
                raise refuse_position(state["used"], number)

    def _start(self, iteration: int) -> None:
        self._iteration = iteration
        self._stream = self._plan.open((iteration,))
        # Elements that only have to be looked up are taken many at a time.
        self._limit = _CHUNK if isinstance(self._stream, IndexedStream) else 1
        self._chunk = None
        self._used = 0
        self._before = None


def _shuffles(plan: Node) -> list[Any]:
    return find(plan, Shuffle)


def _with_seeds(plan: Node, seeds: Sequence[int]) -> Node:
    """Returns a plan whose shuffles have these seeds, which may have been random."""
    known = dict(zip(map(id, _shuffles(plan)), seeds, strict=True))
    if [node.seed for node in _shuffles(plan)] == list(seeds):
        return plan
    given = iter(_in_order(plan, known))
    return rewritten(
        plan,
        lambda node: (
            dataclasses.replace(node, seed=next(given))
            if isinstance(node, Shuffle)
            else node
        ),
    )


def _in_order(plan: Node, known: dict[int, int]) -> list[int]:
    """Returns the seeds in the order in which nodes are rewritten: inputs first."""
    inner = [seed for node in plan.inputs for seed in _in_order(node, known)]
    return [*inner, known[id(plan)]] if isinstance(plan, Shuffle) else inner
