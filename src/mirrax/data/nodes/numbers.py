"""`range`, `counter` and `random`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan.columns import Columns
from mirrax.data.plan.indexed import IndexedNode, SequentialIndices
from mirrax.data.plan.node import INFINITE, Epoch, Node, State, Stream, as_count
from mirrax.data.plan.seeds import Seeded, random_for
from mirrax.values.tensor_spec import TensorSpec

_ROWS = 256
"""How many random numbers are made at once."""


@dataclasses.dataclass(frozen=True, eq=False)
class Range(IndexedNode):
    """Integers."""

    spec = TensorSpec((), np.int64)

    numbers: range

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [self.numbers.start + numbers * self.numbers.step]

    @property
    @override
    def cardinality(self) -> int:
        return len(self.numbers)


@dataclasses.dataclass(frozen=True, eq=False)
class Counter(IndexedNode):
    """Numbers from a start on, by a step."""

    cardinality = INFINITE

    start: int
    step: int
    dtype: np.dtype[Any]

    @override
    def indices(self, epoch: Epoch) -> Stream:
        return SequentialIndices(sys.maxsize)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [(self.start + numbers * self.step).astype(self.dtype)]

    @property
    @override
    def spec(self) -> Any:
        return TensorSpec((), self.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class RandomNumbers(Node, Seeded):
    """Random integers below 2**32."""

    spec = TensorSpec((), np.int64)
    cardinality = INFINITE

    seed: int
    rerandomize: bool
    is_unseeded: bool = dataclasses.field(default=False, repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return RandomStream((self.seed, *(epoch if self.rerandomize else ())))


class RandomStream(Stream):
    """Random integers below 2**32, generated in blocks for fast restores."""

    chunk = _ROWS
    structure = jax.tree.structure(0)

    def __init__(self, seed: tuple[int, ...]) -> None:
        self._seed = seed
        self._position = 0
        self._made = (-1, np.zeros(0, np.int64))

    @override
    def take(self, limit: int) -> Columns | None:
        number, start = divmod(self._position, _ROWS)
        if self._made[0] != number:
            block = random_for(*self._seed, number).integers(2**32, size=_ROWS)
            self._made = (number, block)
        taken = self._made[1][start : start + limit]
        self._position += len(taken)
        return [taken]

    @override
    def state(self) -> State:
        return self._position

    @override
    def restore(self, state: State) -> None:
        self._position = as_count(state)
