"""Threads that run functions of elements, and end with whoever uses them."""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

AUTOTUNE = -1
"""Accepted wherever TensorFlow lets the runtime choose a number."""

Future = concurrent.futures.Future[Any]

POLL_SECONDS = 0.2
"""How long a thread waits at most before Python looks for a Ctrl-C.

One that comes just before a thread begins to wait does not wake it.
"""

_EXIT_SECONDS = 1.0


def num_threads(num_parallel_calls: int | None) -> int:
    """Returns how many threads to use; 0 for none.

    What is worth a thread waits for files or works outside of Python's lock, so there
    may be more threads than cores.
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


def wait_for(futures: Sequence[Future]) -> set[Future]:
    """Waits until there is a result of one of `futures`; returns those that are there.

    Ctrl-C comes through.
    """
    done: set[Future] = set()
    while not done:
        done = concurrent.futures.wait(
            futures, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED"
        ).done
    return done


class Pool:
    """Threads, started when there is work, and ended with their owner.

    Args:
        owner: Who uses them.
        size: How many there are.
    """

    def __init__(self, owner: object, size: int) -> None:
        self.size = size
        self._owner = weakref.ref(owner)
        self._threads: _DaemonThreads | None = None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Returns what will be the result of a function, called in a thread."""
        if self._threads is None:
            self._threads = _DaemonThreads(self.size)
            weakref.finalize(self._owner(), self._threads.end)
        return self._threads.submit(function, arguments)

    def close(self) -> None:
        """Ends the threads, after what they are doing."""
        if self._threads is not None:
            self._threads.end()
            self._threads = None


class _DaemonThreads:
    """Threads that do not keep the process from ending.

    Those of `ThreadPoolExecutor` do, when a function waits for data that never come.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._started: list[threading.Thread] = []

    def submit(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Future:
        future: Future = concurrent.futures.Future()
        self._tasks.put((future, function, arguments))
        if len(self._started) < self._size:
            thread = threading.Thread(
                target=_work,
                args=(self._tasks,),
                name=f"mirrax-data_{len(self._started)}",
                daemon=True,
            )
            self._started.append(thread)
            _alive.add(thread)
            thread.start()
        return future

    def end(self) -> None:
        """Ends the threads after what they are doing, and cancels the rest."""
        while True:
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                break
            if task is not None:
                task[0].cancel()
        for _ in self._started:
            self._tasks.put(None)


def _work(tasks: queue.SimpleQueue[Any]) -> None:
    while (task := tasks.get()) is not None:
        future, function, arguments = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
        # What it made must not live until the next task comes.
        del task, future, function, arguments


_alive: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def _join_threads() -> None:
    """Lets threads end what takes a moment: Python does not run them any more then."""
    end = time.monotonic() + _EXIT_SECONDS
    for thread in list(_alive):
        thread.join(max(0.0, end - time.monotonic()))
