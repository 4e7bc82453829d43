"""`take_while`, `scan` and `unique`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.inference import spec_of_function
from mirrax.data.node import (
    UNKNOWN,
    Epoch,
    ReplayedStream,
    SourceNode,
    State,
    Stream,
)
from mirrax.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, eq=False)
class TakeWhile(SourceNode):
    """The elements before the first for which a function is not true."""

    is_expensive = True
    cardinality = UNKNOWN

    predicate: Callable[..., Any]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _TakeWhileStream(self.source.open(epoch), self.predicate)


class _TakeWhileStream(Stream):
    def __init__(self, source: Stream, predicate: Callable[..., Any]) -> None:
        self._source = source
        self._predicate = predicate
        self._number = 0
        self._has_ended = False

    @override
    def take(self, limit: int) -> Columns | None:
        # One at a time, so that nothing after the end is read.
        columns = None if self._has_ended else self._source.take(1)
        if columns is None:
            return None
        self.structure = self._source.structure
        with cols.annotate_errors("take_while", self._number):
            (row,) = cols.rows_of(columns)
            is_kept = cols.call(self._predicate, self.structure, row)
            if np.ndim(is_kept):
                raise InvalidArgumentError(
                    "A function given to `take_while` must return one truth value. "
                    f"Received: an array of shape {np.shape(is_kept)}. Use `.all()` or "
                    "`.any()`."
                )
        self._number += 1
        self._has_ended = not is_kept
        return None if self._has_ended else columns

    @override
    def state(self) -> State:
        return [self._number, self._has_ended, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        self._number, self._has_ended, inner = state
        self._source.restore(inner)


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(SourceNode):
    """The results of a function that carries a state.

    Args:
        source: The elements.
        initial_state: The state before the first element.
        function: Returns the next state and a result, given a state and an element.
    """

    is_expensive = True

    initial_state: Any
    function: Callable[[Any, Any], Any]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _ScanStream(self, epoch)

    def call(self, state: Any, element: Any) -> tuple[Any, Any]:
        """Returns the next state, and the result."""
        made = self.function(state, element)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(
                "A function given to `scan` must return a pair: the next state and a "
                f"result. Received: {made!r}."
            )
        return made

    @property
    @override
    def spec(self) -> Any:
        element = self.source.spec
        is_split = isinstance(element, tuple) and not hasattr(element, "_fields")

        def result(*parts: Any) -> Any:
            return self.call(self.initial_state, parts if is_split else parts[0])[1]

        return spec_of_function(result, self.source, self)


class _ScanStream(ReplayedStream):
    def __init__(self, node: Scan, epoch: Epoch) -> None:
        self._node = node
        self._source = node.source.open(epoch)
        self._state = node.initial_state

    @override
    def _take(self, limit: int) -> Columns | None:
        columns = self._source.take(1)
        if columns is None:
            return None
        (row,) = cols.rows_of(columns)
        element = jax.tree.unflatten(self._source.structure, row)
        with cols.annotate_errors("scan", self._taken):
            self._state, result = self._node.call(self._state, element)
        leaves, self.structure = jax.tree.flatten(result)
        return cols.from_rows([leaves])


@dataclasses.dataclass(frozen=True, eq=False)
class Unique(SourceNode):
    """The elements that differ from all before them."""

    cardinality = UNKNOWN

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _UniqueStream(self.source.open(epoch))


class _UniqueStream(ReplayedStream):
    def __init__(self, source: Stream) -> None:
        self._source = source
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


def _key(leaf: Any) -> Any:
    array = np.asarray(leaf)
    is_text = array.dtype.kind in "OSU"
    return array.shape, tuple(array.ravel().tolist()) if is_text else array.tobytes()
