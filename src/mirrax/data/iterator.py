"""The iterator of a dataset, with a position that can be saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mirrax.context import stack
from mirrax.context.guards import MustDrive
from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.node import Node, position_error
from mirrax.data.optional_element import GetNext
from mirrax.data.seeds import seeds_of, with_seeds
from mirrax.trees import Driving, Tree

_VERSION = 1


class DatasetIterator(Driving, GetNext):
    """The elements of a dataset, one after another.

    `save_state` returns the position of the next element as a JSON value;
    `restore_state`, on an iterator of the same dataset, restores it.
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

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element, nested as it is."""
        return self._plan.spec

    def __next__(self) -> Tree:
        if stack.overlay() is not None:
            raise MustDrive
        if self._chunk is None or self._used == cols.num_rows(self._chunk):
            self._before = self._stream.state()
            self._chunk, self._used = self._stream.take(self._stream.chunk), 0
            if self._chunk is None:
                raise StopIteration
        leaves = [column[self._used] for column in self._chunk]
        self._used += 1
        return jax.tree.unflatten(self._stream.structure, leaves)

    def save_state(self) -> dict[str, Any]:
        """Returns the position of the next element, as a JSON value."""
        is_between = self._chunk is None or self._used == cols.num_rows(self._chunk)
        used = 0 if is_between else self._used
        before = self._stream.state() if is_between else self._before
        return {
            "version": _VERSION,
            "iteration": self._iteration,
            "seeds": self._seeds,
            "stream": before,
            "used": used,
        }

    def restore_state(self, state: Any) -> None:
        """Restores a position that `save_state` returned."""
        if not isinstance(state, dict) or state.get("version") != _VERSION:
            raise ValueError(
                "A position must come from `save_state` of this version. Received: "
                f"{state!r}."
            )
        self._plan = with_seeds(self._plan, state["seeds"])
        self._start(state["iteration"])
        self._on_restore(state["iteration"])
        self._stream.restore(state["stream"])
        for number in range(state["used"]):
            if next(self, self) is self:
                raise position_error(state["used"], number)

    def _start(self, iteration: int) -> None:
        self._iteration = iteration
        self._seeds = seeds_of(self._plan)
        self._stream = self._plan.open((iteration,))
        self._chunk = None
        self._used = 0
        self._before = None
