"""`tf.train.Coordinator`: several threads that stop together."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from mirrax.tf.errors import OutOfRangeError

_logger = logging.getLogger(__name__)
_POLL_SECONDS = 1.0


class Coordinator:
    """Lets any thread ask all of them to stop, and raises the first error in `join`.

    Args:
        clean_stop_exception_types: Errors that only mean that a thread is done.

    >>> coordinator = Coordinator()
    >>> def work():
    ...     while not coordinator.should_stop():
    ...         coordinator.request_stop()
    >>> thread = threading.Thread(target=work)
    >>> thread.start()
    >>> coordinator.join([thread])
    """

    def __init__(
        self,
        clean_stop_exception_types: tuple[type[Exception], ...] = (OutOfRangeError,),
    ) -> None:
        self._clean_stops = tuple(clean_stop_exception_types)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._registered_threads: set[threading.Thread] = set()

    @property
    def joined(self) -> bool:
        return self._joined

    def request_stop(self, ex: Any = None) -> None:
        """Asks the threads to stop.

        Args:
            ex: The error to raise in `join`, or what `sys.exc_info()` gives; only the
                first one counts. After `join` it is raised here.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            if isinstance(error, self._clean_stops):
                _logger.info("A thread stopped: %r", error)
                error = None
            if self._joined and error is not None:
                raise error
            if not self._stop.is_set():
                self._error = error
                self._stop.set()

    def clear_stop(self) -> None:
        """Forgets that a stop was requested, and why."""
        with self._lock:
            self._joined, self._error = False, None
            self._stop.clear()

    def should_stop(self) -> bool:
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits until a stop is requested; returns whether it was."""
        return self._stop.wait(timeout)

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Requests a stop if the body of the `with` raises."""
        try:
            yield
        except BaseException:
            self.request_stop(sys.exc_info())

    def register_thread(self, thread: threading.Thread) -> None:
        """Lets `join` wait for one more thread."""
        with self._lock:
            self._registered_threads.add(thread)

    def raise_requested_exception(self) -> None:
        """Raises the error that the stop was requested with, if any."""
        if self._error is not None:
            raise self._error

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Waits until all threads have ended, then raises the error of the stop.

        Args:
            threads: The threads, in addition to the registered ones.
            stop_grace_period_secs: How long threads may run after a stop is requested.
            ignore_live_threads: Whether to return if some still run then.
        """
        with self._lock:
            waited_for = self._registered_threads | {*(threads or ())}
        while not self._stop.is_set() and any(t.is_alive() for t in waited_for):
            for thread in waited_for:
                thread.join(_POLL_SECONDS if not self._stop.is_set() else 0)
        end = time.monotonic() + stop_grace_period_secs
        for thread in waited_for:
            thread.join(max(0.0, end - time.monotonic()))
        alive = [thread.name for thread in waited_for if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads.clear()
        self.raise_requested_exception()
        if alive and not ignore_live_threads:
            raise RuntimeError(
                "Threads must end once a stop is requested: Coordinator stopped with "
                f"threads still running: {' '.join(alive)}. Let them ask "
                "`should_stop()`, or pass `ignore_live_threads=True`."
            )
