"""`filter`, `take_while`, `unique` and `assert_cardinality`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import UNKNOWN, SourceNode
from mirrax.data.plan.streams import (
    DelayingStream,
    ReplayedStream,
    SourceStream,
    State,
    Stream,
)
from mirrax.data.plan.user_functions import UserErrors, call_with_element
from mirrax.errors import InvalidArgumentError


class _FilterStream(SourceStream, DelayingStream):
    _node: Filter
    _has_ended = False

    @override
    def _take(self, limit: int) -> Columns | None:
        if self._node.is_until_false:
            # One at a time, so that nothing after the end is read.
            limit = 1
        while not self._has_ended:
            columns = self._source.take(limit)
            if columns is None:
                return None
            self.structure = self._source.structure
            numbers = itertools.count(self._count)
            self._count += cols.num_rows(columns)
            results = map(self._is_kept, cols.rows_of(columns), numbers)
            keep = self._until_error(results)
            chosen = [place for place, is_kept in enumerate(keep) if is_kept]
            if chosen:
                return cols.select(columns, chosen)
            if self._error is not None:
                raise self._error
            self._has_ended = self._node.is_until_false
        return None

    @override
    def state(self) -> State:
        return [self._has_ended, super().state()]

    @override
    def restore(self, state: State) -> None:
        has_ended, inner = state
        self._has_ended = bool(has_ended)
        super().restore(inner)

    def _is_kept(self, row: Any, number: int) -> bool:
        operation = self._node.operation
        with UserErrors(operation, number, self._node.skip_log_level):
            result = call_with_element(self._node.predicate, self.structure, row)
            return _truth_of(result, operation)
        return False


@dataclasses.dataclass(frozen=True, eq=False)
class Filter(SourceNode):
    """The elements for which a function is true."""

    stream = _FilterStream
    is_expensive = True
    keeps_batch_size = True
    operation: ClassVar[str] = "filter"
    is_until_false: ClassVar[bool] = False

    predicate: Callable[..., Any]
    skip_log_level: int = dataclasses.field(default=0, repr=False)

    @property
    @override
    def cardinality(self) -> int:
        return 0 if self.source.cardinality == 0 else UNKNOWN


@dataclasses.dataclass(frozen=True, eq=False)
class TakeWhile(Filter):
    """The elements before the first for which a function is not true."""

    operation = "take_while"
    is_until_false = True
    keeps_batch_size = False


def _truth_of(result: Any, operation: str) -> bool:
    if result is None or np.ndim(result):
        shown = f"an array of shape {np.shape(result)}" if np.ndim(result) else None
        raise InvalidArgumentError(
            f"A function given to `{operation}` must return one truth value. "
            f"Received: {shown}. Use `.all()` or `.any()`, or add a `return`."
        )
    return bool(result)


class _UniqueStream(ReplayedStream, SourceStream):
    def __init__(self, source: Stream, node: Any) -> None:
        super().__init__(source, node)
        self._seen: set[Any] = set()

    @override
    def _take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(limit)) is not None:
            self.structure = self._source.structure
            new = np.array([self._is_new(row) for row in cols.rows_of(columns)])
            if new.any():
                return cols.select(columns, new)
        return None

    def _is_new(self, row: Any) -> bool:
        known = len(self._seen)
        self._seen.add(tuple(map(_key, row)))
        return len(self._seen) > known


@dataclasses.dataclass(frozen=True, eq=False)
class Unique(SourceNode):
    """The elements that differ from all before them."""

    stream = _UniqueStream
    cardinality = UNKNOWN


def _key(leaf: Any) -> Any:
    array = cols.as_array(leaf)
    is_text = array.dtype.kind in "OSU"
    return array.shape, tuple(array.ravel().tolist()) if is_text else array.tobytes()


class _CheckedStream(SourceStream):
    _node: AssertCardinality

    def __init__(self, source: Stream, node: AssertCardinality) -> None:
        super().__init__(source, node)
        self.chunk = source.chunk

    @override
    def take(self, limit: int) -> Columns | None:
        left = self._node.cardinality - self._count
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
            f"Received: {found}, for {self._node.cardinality}."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class AssertCardinality(SourceNode):
    """A dataset with a number of elements that the user asserts."""

    stream = _CheckedStream
    keeps_batch_size = True

    cardinality: int = UNKNOWN
