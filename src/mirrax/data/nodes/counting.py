"""`counter`, `random` and `assert_cardinality`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import (
    INFINITE,
    CountedStream,
    Epoch,
    Node,
    SourceNode,
    State,
    Stream,
    as_count,
)
from mirrax.data.plan.seeds import Seeded, random_for
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec

_ROWS = 256
"""How many numbers are made at once."""


class _InfiniteStream(Stream):
    """Numbers that depend on their position alone."""

    chunk = _ROWS
    structure = jax.tree.structure(0)

    def __init__(self) -> None:
        self._position = 0

    @override
    def state(self) -> State:
        return self._position

    @override
    def restore(self, state: State) -> None:
        self._position = as_count(state)


@dataclasses.dataclass(frozen=True, eq=False)
class Counter(Node):
    """Numbers from a start on, by a step."""

    cardinality = INFINITE

    start: int
    step: int
    dtype: np.dtype[Any]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _CounterStream(self)

    @property
    @override
    def spec(self) -> Any:
        return TensorSpec((), self.dtype)


class _CounterStream(_InfiniteStream):
    def __init__(self, node: Counter) -> None:
        super().__init__()
        self._node = node

    @override
    def take(self, limit: int) -> Columns | None:
        positions = np.arange(self._position, self._position + limit)
        self._position += limit
        numbers = self._node.start + positions * self._node.step
        return [numbers.astype(self._node.dtype)]


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


class RandomStream(_InfiniteStream):
    """Random integers below 2**32, generated in blocks for fast restores."""

    def __init__(self, seed: tuple[int, ...]) -> None:
        super().__init__()
        self._seed = seed
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


@dataclasses.dataclass(frozen=True, eq=False)
class AssertCardinality(SourceNode):
    """A dataset with a number of elements that the user asserts."""

    count: int

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _CheckedStream(self.source.open(epoch), self.count)

    @property
    @override
    def cardinality(self) -> int:
        return self.count


class _CheckedStream(CountedStream):
    def __init__(self, source: Stream, count: int) -> None:
        self._source = source
        self._expected = count
        self.chunk = source.chunk

    @override
    def take(self, limit: int) -> Columns | None:
        left = self._expected - self._count
        columns = self._source.take(min(limit, left) if left > 0 else 1)
        self.structure = self._source.structure
        if columns is None:
            if left > 0:
                raise self._wrong(f"only {self._count}")
            return None
        if not left:
            raise self._wrong(f"at least {self._count + 1}")
        self._count += cols.num_rows(columns)
        return columns

    def _wrong(self, found: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            "A dataset must have as many elements as `assert_cardinality` says. "
            f"Received: {found}, for {self._expected}."
        )
