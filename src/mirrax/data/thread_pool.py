"""Threads of datasets, which end with their owner."""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

AUTOTUNE = -1
"""Accepted wherever TensorFlow lets the runtime choose a number."""

Future = concurrent.futures.Future[Any]

_EXIT_SECONDS = 1.0


def num_threads(num_parallel_calls: int | None) -> int:
    """Returns how many threads to use; 0 for none.

    There may be more threads than cores: they wait for files or release Python's lock.
    """
    if num_parallel_calls is None:
        return 0
    if num_parallel_calls == AUTOTUNE:
        return min(32, 4 * (os.cpu_count() or 1))
    if num_parallel_calls < 1:
        raise ValueError(
            "`num_parallel_calls` must be at least 1, or AUTOTUNE. Received: "
            f"num_parallel_calls={num_parallel_calls}."
        )
    return int(num_parallel_calls)


class Pool:
    """Threads that start on demand and end with their owner."""

    def __init__(self, owner: object, size: int) -> None:
        self.size = size
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._num_started = 0
        weakref.finalize(owner, self.close)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        future: Future = concurrent.futures.Future()
        self._tasks.put((future, function, arguments))
        if self._num_started < self.size:
            # Threads of `ThreadPoolExecutor` would block the exit of Python.
            thread = threading.Thread(
                target=_work,
                args=(self._tasks,),
                name=f"mirrax-data_{self._num_started}",
                daemon=True,
            )
            self._num_started += 1
            _alive.add(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Ends the threads after their current tasks, and cancels the others."""
        tasks, self._tasks = self._tasks, queue.SimpleQueue()
        with contextlib.suppress(queue.Empty):
            while True:
                tasks.get_nowait()[0].cancel()
        for _ in range(self._num_started):
            tasks.put(None)
        self._num_started = 0


class Prefetcher:
    """The results of a function that a thread calls in advance.

    Args:
        read: Returns a tuple, whose first item is None at the end. It is not called
            again after that, or after an error.
        depth: How many results wait while the thread works on the next.
        pool: Threads that are shared with others, for a depth of 0; by default, one
            of its own.
    """

    def __init__(
        self, read: Callable[[], tuple[Any, ...]], depth: int, pool: Pool | None = None
    ) -> None:
        # Several threads of a shared pool would call `read` at once.
        assert pool is None or depth == 0
        self._read = read
        self._depth = depth
        self._is_shared = pool is not None
        self._pool = Pool(self, 1) if pool is None else pool
        self._pending: collections.deque[Future] = collections.deque()
        self._has_ended = threading.Event()

    def next(self) -> Any:
        """Returns the next result; the last one, or its error, again and again."""
        self.start()
        try:
            result = self._pending[0].result()
        finally:
            if self._has_ended.is_set() and not self._is_shared:
                self._pool.close()
        if result[0] is not None:
            self._pending.popleft()
            self.start()
        return result

    def start(self) -> None:
        while len(self._pending) <= self._depth and not self._has_ended.is_set():
            future = self._pool.submit(_read_until_end, self._read, self._has_ended)
            self._pending.append(future)


def _read_until_end(
    read: Callable[[], tuple[Any, ...]], has_ended: threading.Event
) -> tuple[Any, ...] | None:
    if has_ended.is_set():
        return None
    result = None
    try:
        result = read()
    finally:
        if result is None or result[0] is None:
            has_ended.set()
    return result


def _work(tasks: queue.SimpleQueue[Any]) -> None:
    while (task := tasks.get()) is not None:
        future, function, arguments = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
        # Release the result before waiting for the next task.
        del task, future, function, arguments


_alive: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def _join_threads() -> None:
    """Waits briefly for threads at exit: Python stops daemon threads then."""
    end = time.monotonic() + _EXIT_SECONDS
    for thread in list(_alive):
        thread.join(max(0.0, end - time.monotonic()))
