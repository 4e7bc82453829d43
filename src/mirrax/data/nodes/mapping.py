"""`map`, also with calls in threads, and `scan`."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.inference import spec_of_function
from mirrax.data.plan.node import (
    DelayingStream,
    Epoch,
    ReplayedStream,
    SourceNode,
    SourceStream,
    State,
    Stream,
    as_count,
)
from mirrax.data.plan.vectorize import MappedFunction
from mirrax.data.thread_pool import Future, Pool, wait_for


@dataclasses.dataclass(frozen=True, eq=False)
class Map(SourceNode):
    """Applies a function to each element.

    Args:
        num_threads: How many calls run at once; 0 for sequential calls.
        is_ordered: Whether results keep the order of the elements; None for the
            dataset's option.
        vectorize: Whether the function may be called once for many elements.
    """

    is_expensive = True

    function: Callable[..., Any]
    num_threads: int = 0
    is_ordered: bool | None = None
    vectorize: bool = True

    @override
    def open(self, epoch: Epoch) -> Stream:
        source = self.source.open(epoch)
        function = MappedFunction(self.function, self.vectorize)
        if self.num_threads < 2:
            return _MapStream(source, self, function)
        is_ordered = self.is_ordered is not False
        return ParallelStream(source, function, self.num_threads, is_ordered)

    @functools.cached_property
    @override
    def spec(self) -> Any:
        return spec_of_function(self.function, self.source, self)


class _MapStream(SourceStream, DelayingStream):
    def __init__(self, source: Stream, node: Map, function: MappedFunction) -> None:
        super().__init__(source, node)
        self._function = function

    @override
    def _take(self, limit: int) -> Columns | None:
        columns = self._source.take(limit)
        if columns is None:
            return None
        structure = self._source.structure
        batched = self._function.try_batched(structure, columns)
        if batched is not None:
            self.structure, result = batched
        else:
            call = functools.partial(self._function.call, structure)
            numbers = itertools.count(self._count)
            results = self._until_error(map(call, cols.rows_of(columns), numbers))
            self.structure = results[-1][1]
            result = cols.from_rows([leaves for leaves, _ in results])
        self._count += cols.num_rows(result)
        return result


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
        with cols.ErrorNote("scan", self._taken):
            self._state, result = self._node.call(self._state, element)
        leaves, self.structure = jax.tree.flatten(result)
        return cols.from_rows([leaves])


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(SourceNode):
    """The results of a function that carries a state.

    Args:
        initial_state: The state before the first element.
        function: Returns the next state and a result, given a state and an element.
    """

    stream = _ScanStream
    is_expensive = True

    initial_state: Any
    function: Callable[[Any, Any], Any]

    def call(self, state: Any, element: Any) -> tuple[Any, Any]:
        """Returns the next state, and the result."""
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


@dataclasses.dataclass(frozen=True)
class _Running:
    """A call whose result was not returned yet.

    It is that of the element `number`, at `offset` in the chunk that starts at the
    position `before`.
    """

    before: State
    offset: int
    number: int
    result: Future


class ParallelStream(Stream):
    """Results of calls in threads.

    The position is that of the first element whose result was not returned, and the
    later elements whose results were, if unordered.

    Args:
        num_threads: How many calls run at once.
    """

    def __init__(
        self,
        source: Stream,
        function: MappedFunction,
        num_threads: int,
        is_ordered: bool,
    ) -> None:
        self._source = source
        self._function = function
        self._is_ordered = is_ordered
        self._pool = Pool(self, num_threads)
        # Unordered results must not be read ahead: reading them again reorders them.
        self.chunk = num_threads if is_ordered else 1
        self._running: collections.deque[_Running] = collections.deque()
        self._next_number = 0
        self._returned: set[int] = set()
        self._error: Exception | None = None
        self._has_ended = False

    @override
    def take(self, limit: int) -> Columns | None:
        batched = self._read(limit)
        if batched is not None:
            return batched
        if not self._running:
            self._pool.close()
            if self._error is not None:
                raise self._error
            return None
        found = self._collect(limit)
        # Keep the threads busy while the caller uses these.
        self._read(0)
        return cols.from_rows(found)

    @override
    def state(self) -> State:
        if self._running:
            first = self._running[0]
            number, before, offset = first.number, first.before, first.offset
        else:
            number, before, offset = self._next_number, self._source.state(), 0
        later = sorted(n - number + offset for n in self._returned if n >= number)
        return [number, before, offset, later]

    @override
    def restore(self, state: State) -> None:
        number, before, offset, later = state
        offset = as_count(offset, as_count(number))
        later = [as_count(n) for n in later]
        self._source.restore(before)
        self._next_number = number - offset
        start = self._next_number
        self._returned = {start + n for n in [*range(offset), *later]}

    def _read(self, limit: int) -> Columns | None:
        """Starts as many calls as there are threads; or returns vectorized results."""
        while not self._has_ended:
            missing = self._pool.size - len(self._running)
            if missing <= 0:
                break
            before = self._source.state()
            # Vectorized results are returned at once, so there are `limit` at most.
            may_batch = limit > 1 and not self._running
            try:
                columns = self._source.take(limit if may_batch else max(limit, missing))
            except Exception as error:
                # Raised after the results before it.
                self._error, columns = error, None
            if columns is None:
                self._has_ended = True
                break
            batched = self._start(columns, before, may_batch)
            if batched is not None:
                return batched
        return None

    def _start(
        self, columns: Columns, before: State, may_batch: bool
    ) -> Columns | None:
        first = self._next_number
        self._next_number += cols.num_rows(columns)
        numbers = range(first, self._next_number)
        structure = self._source.structure
        is_whole = may_batch and self._returned.isdisjoint(numbers)
        batched = self._function.try_batched(structure, columns) if is_whole else None
        if batched is not None:
            self.structure, results = batched
            return results
        call = self._function.call
        for number, row in zip(numbers, cols.rows_of(columns), strict=True):
            if number not in self._returned:
                future = self._pool.submit(call, structure, row, number)
                self._running.append(_Running(before, number - first, number, future))
        return None

    def _collect(self, limit: int) -> list[Any]:
        """Returns finished results, at least one; raises an error if it is next."""
        found: list[Any] = []
        taken: set[int] = set()
        for running in itertools.islice(self._finished(), limit):
            if found and running.result.exception() is not None:
                break
            found.append(self._result_of(running))
            taken.add(running.number)
        left = (r for r in self._running if r.number not in taken)
        self._running = collections.deque(left)
        number = self._running[0].number if self._running else self._next_number
        self._returned = {n for n in self._returned | taken if n > number}
        return found

    def _finished(self) -> Iterable[_Running]:
        """Waits until a result can be returned; returns all such calls."""
        if self._is_ordered:
            wait_for([self._running[0].result])
            return itertools.takewhile(lambda r: r.result.done(), self._running)
        futures = [running.result for running in self._running]
        done = wait_for(futures)
        ended = [r for r in self._running if r.result in done]
        # Errors last: they end the dataset.
        return sorted(ended, key=lambda r: _has_failed(r.result))

    def _result_of(self, running: _Running) -> Any:
        try:
            leaves, self.structure = running.result.result()
        except Exception:
            self._pool.close()
            raise
        return leaves


def _has_failed(future: Future) -> int:
    if future.cancelled():
        return 2
    return int(future.exception() is not None)
