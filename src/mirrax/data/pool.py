"""Threads that run functions of elements, and end with whoever uses them."""

from __future__ import annotations

import concurrent.futures
import os
import weakref
from collections.abc import Callable
from typing import Any

AUTOTUNE = -1
"""Accepted wherever TensorFlow lets the runtime choose a number."""

Future = concurrent.futures.Future[Any]


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


class Pool:
    """Threads, started when there is work, and ended with their owner.

    Args:
        owner: Who uses them.
        size: How many there are.
    """

    def __init__(self, owner: object, size: int) -> None:
        self.size = size
        self._owner = weakref.ref(owner)
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Returns what will be the result of a function, called in a thread."""
        if self._executor is None:
            self._executor = concurrent.futures.ThreadPoolExecutor(
                self.size, thread_name_prefix="mirrax-data"
            )
            weakref.finalize(self._owner(), _shut_down, self._executor)
        return self._executor.submit(function, *arguments)

    def close(self) -> None:
        """Ends the threads, after what they are doing."""
        if self._executor is not None:
            _shut_down(self._executor)
            self._executor = None


def _shut_down(executor: concurrent.futures.ThreadPoolExecutor) -> None:
    executor.shutdown(wait=False, cancel_futures=True)
