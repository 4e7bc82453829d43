"""`map` with parallel calls in threads."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import State, Stream, as_count
from mirrax.data.plan.vectorize import MappedFunction
from mirrax.data.thread_pool import Future, Pool, wait_for


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
