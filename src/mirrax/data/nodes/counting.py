"""`enumerate` and `assert_cardinality`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import CountedStream, SourceNode, Stream
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


class _EnumerateStream(CountedStream):
    _node: Enumerate

    @override
    def take(self, limit: int) -> Columns | None:
        columns = self._source.take(limit)
        if columns is None:
            return None
        self.structure = jax.tree.structure(
            (0, jax.tree.unflatten(self._source.structure, [0] * len(columns)))
        )
        first = self._node.start + self._count
        count = cols.num_rows(columns)
        self._count += count
        return [np.arange(first, first + count), *columns]


@dataclasses.dataclass(frozen=True, eq=False)
class Enumerate(SourceNode):
    """Pairs of a number and an element."""

    stream = _EnumerateStream

    start: int

    @property
    @override
    def spec(self) -> Any:
        return (TensorSpec((), np.int64), self.source.spec)


class _CheckedStream(CountedStream):
    _node: AssertCardinality

    def __init__(self, source: Stream, node: AssertCardinality) -> None:
        super().__init__(source, node)
        self.chunk = source.chunk

    @override
    def take(self, limit: int) -> Columns | None:
        left = self._node.count - self._count
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
            f"Received: {found}, for {self._node.count}."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class AssertCardinality(SourceNode):
    """A dataset with a number of elements that the user asserts."""

    stream = _CheckedStream

    count: int

    @property
    @override
    def cardinality(self) -> int:
        return self.count
