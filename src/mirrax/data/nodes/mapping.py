"""`map`, also with calls in threads, and `scan`."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
from typing_extensions import override

from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.inference import spec_of_function
from mirrax.data.plan.node import UNKNOWN, Epoch, SourceNode
from mirrax.data.plan.streams import (
    DelayingStream,
    ReplayedStream,
    SourceStream,
    State,
    Stream,
)
from mirrax.data.plan.user_functions import UserErrors
from mirrax.data.plan.vectorize import MappedFunction
from mirrax.data.thread_pool import Future, Pool


@dataclasses.dataclass(frozen=True, eq=False)
class Map(SourceNode):
    """Applies a function to each element.

    Args:
        num_threads: How many calls run at once; 0 for sequential calls.
        skip_log_level: The level at which errors of elements that are left out are
            logged; 0 if none is left out.
    """

    is_expensive = True

    function: Callable[..., Any]
    num_threads: int = 0
    vectorize: bool = True
    skip_log_level: int = dataclasses.field(default=0, repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        source = self.source.open(epoch)
        function = MappedFunction(self.function, self.vectorize, self.skip_log_level)
        kind = _MapStream if self.num_threads < 2 else _ParallelMapStream
        return kind(source, self, function)

    @functools.cached_property
    @override
    def spec(self) -> Any:
        return spec_of_function(self.function, self.source, self)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        return UNKNOWN if self.skip_log_level and inner > 0 else inner


class _MapStream(SourceStream, DelayingStream):
    def __init__(self, source: Stream, node: Map, function: MappedFunction) -> None:
        super().__init__(source, node)
        self._function = function

    @override
    def _take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(limit)) is not None:
            structure = self._source.structure
            batched = self._function.try_batched(structure, columns)
            if batched is not None:
                self.structure, result = batched
                self._count += cols.num_rows(result)
                return result
            call = functools.partial(self._function.call, structure)
            numbers = itertools.count(self._count)
            self._count += cols.num_rows(columns)
            calls = map(call, cols.rows_of(columns), numbers)
            results = self._until_error(made for made in calls if made is not None)
            if results:
                self.structure = results[-1][1]
                return cols.from_rows([leaves for leaves, _ in results])
        return None


class _ScanStream(ReplayedStream, SourceStream):
    _node: Scan

    def __init__(self, source: Stream, node: Scan) -> None:
        super().__init__(source, node)
        self._state = node.initial_state

    @override
    def _take(self, limit: int) -> Columns | None:
        columns = self._source.take(1)
        if columns is None:
            return None
        (row,) = cols.rows_of(columns)
        element = jax.tree.unflatten(self._source.structure, row)
        with UserErrors("scan", self._taken):
            self._state, result = self._node.call(self._state, element)
        leaves, self.structure = jax.tree.flatten(result)
        return cols.from_rows([leaves])


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(SourceNode):
    """The results of a function that carries a state."""

    stream = _ScanStream
    is_expensive = True

    initial_state: Any
    function: Callable[[Any, Any], Any]

    def call(self, state: Any, element: Any) -> tuple[Any, Any]:
        made = self.function(state, element)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(
                "A function given to `scan` must return a pair: the next state and a "
                f"result. Received: {made!r}."
            )
        return made

    @functools.cached_property
    @override
    def spec(self) -> Any:
        element = self.source.spec
        is_split = isinstance(element, tuple) and not hasattr(element, "_fields")

        def result(*parts: Any) -> Any:
            return self.call(self.initial_state, parts if is_split else parts[0])[1]

        return spec_of_function(result, self.source, self)


class _ParallelMapStream(SourceStream):
    """Results of calls in threads, in the order of the elements.

    The position is that of the first element whose result was not returned.
    """

    _source: BufferedStream

    def __init__(self, source: Stream, node: Map, function: MappedFunction) -> None:
        # A buffer knows the position of each of its elements.
        super().__init__(BufferedStream(source), node)
        self._function = function
        self._pool = Pool(self, node.num_threads)
        self.chunk = node.num_threads
        # The positions of elements, and the results of their calls.
        self._running: collections.deque[tuple[State, Future]] = collections.deque()
        self._error: Exception | None = None
        self._has_ended = False

    @override
    def take(self, limit: int) -> Columns | None:
        if not self._running and (batched := self._take_batched(limit)) is not None:
            return batched
        found: list[Any] = []
        try:
            while len(found) < limit and (future := self._next_call()) is not None:
                # Waits only for the first; an error follows the results before it.
                if found and (not future.done() or future.exception() is not None):
                    break
                made = future.result()
                self._running.popleft()
                if made is not None:
                    leaves, self.structure = made
                    found.append(leaves)
            if not found and self._error is not None:
                raise self._error
        except Exception:
            self._end()
            raise
        if not found:
            self._end()
        return cols.from_rows(found) if found else None

    @override
    def state(self) -> State:
        before = self._running[0][0] if self._running else self._source.state()
        return [self._count - len(self._running), before]

    def _end(self) -> None:
        self._has_ended = True
        self._pool.close()

    def _take_batched(self, limit: int) -> Columns | None:
        """Returns vectorized results; None if the function is called in threads."""
        if self._has_ended or limit < 2 or not self._source.fill(limit):
            return None
        columns = cols.select(self._source.columns, slice(limit))
        batched = self._function.try_batched(self._source.structure, columns)
        if batched is None:
            return None
        self._source.take_buffered(limit)
        self.structure, results = batched
        self._count += cols.num_rows(results)
        return results

    def _next_call(self) -> Future | None:
        """Returns the first call, after starting others; None at the end."""
        # Twice as many as there are threads: one slow call keeps none of them waiting.
        while not self._has_ended and len(self._running) < 2 * self._pool.size:
            before = self._source.state()
            try:
                row = self._source.next_row()
            except Exception as error:
                # Raised after the results before it.
                self._error, row = error, None
            if row is None:
                self._has_ended = True
                break
            structure, call = self._source.structure, self._function.call
            future = self._pool.submit(call, structure, row, self._count)
            self._running.append((before, future))
            self._count += 1
        return self._running[0][1] if self._running else None
