"""Exit handling of a worker: notifies the job, avoids hangs, sets the exit code."""

from __future__ import annotations

import atexit
import faulthandler
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from mirrax._jax.distributed import forget_distributed
from mirrax.cluster.coordinator.process import Coordinator
from mirrax.cluster.worker.job import EXIT_CODE, Job
from mirrax.cluster.worker.stack_traces import describe_user_line
from mirrax.errors import JobError

# At exit JAX may wait for its devices, and these for a lost worker.
_MAX_END_SECONDS = 10
# Kept alive to the end: the devices still use the client that JAX must forget.
_clients: list[Any] = []


def install_exit_code() -> None:
    """Makes an uncaught `JobError` end the program with `EXIT_CODE`."""
    sys.excepthook = functools.partial(_print_and_exit, sys.excepthook)


def install(job: Job, hosted: Coordinator | None) -> None:
    """Makes this process report its exit to the job; after `install_exit_code`.

    Args:
        hosted: The coordinator, if this process started it.
    """
    handler = _ExitHandler(job, hosted, sys.excepthook)
    sys.excepthook = handler.report
    atexit.register(handler.end)


def _print_and_exit(
    print_error: Callable[..., Any],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    print_error(kind, error, trace)
    if isinstance(error, JobError):
        sys.exit(EXIT_CODE)


class _ExitHandler:
    def __init__(
        self, job: Job, hosted: Coordinator | None, print_error: Callable[..., Any]
    ) -> None:
        self._job = job
        self._hosted = hosted
        self._print_error = print_error
        self._exit_code = EXIT_CODE

    def report(
        self,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        """Reports an uncaught exception to the job; replaces `sys.excepthook`."""
        explained = self._job.heartbeat.explain(error)
        self._job.fail(explained)
        if isinstance(explained, KeyboardInterrupt):
            # All workers are interrupted at once: one line from each is enough.
            line = describe_user_line(trace)
            print(f"KeyboardInterrupt{line and f' at {line}'}", file=sys.stderr)
            self._exit_code = 128 + signal.SIGINT
            return
        self._print_error(type(explained), explained, trace)
        self._exit_code = 1

    def end(self) -> None:
        """Leaves the job; runs at exit."""
        has_failed = self._job.has_failed
        if has_failed:
            # Otherwise JAX waits at exit for unfinished collectives.
            self._job.heartbeat.interrupt_waits()
        self._job.leave()
        # Otherwise JAX's shutdown waits for all workers to shut down.
        _clients.append(forget_distributed())
        if self._hosted is not None and not has_failed:
            self._hosted.wait()
        if self._job.has_abandoned_thread:
            # That thread is inside JAX and would crash when Python shuts down.
            self._exit_now()
        if has_failed:
            silence = open(os.devnull, "w")  # noqa: SIM115
            faulthandler.dump_traceback_later(_MAX_END_SECONDS, exit=True, file=silence)

    def _exit_now(self) -> NoReturn:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(self._exit_code)
