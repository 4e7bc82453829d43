"""How a worker ends: the others are told, nobody waits, the exit code is right."""

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

# JAX may wait for its devices at the end, and those for a worker that is gone.
_MAX_END_SECONDS = 10
# Kept until the very end: the devices still use what JAX itself must forget.
_clients: list[Any] = []


def install_exit_code() -> None:
    """Makes a program that ends with a `JobError` end with the code of those."""
    sys.excepthook = functools.partial(_print_and_exit, sys.excepthook)


def install(job: Job, hosted: Coordinator | None) -> None:
    """Makes the end of this process the end of its part in the job.

    After `install_exit_code`.

    Args:
        hosted: The coordinator, if it belongs to this process.
    """
    ending = _Ending(job, hosted, sys.excepthook)
    sys.excepthook = ending.report
    atexit.register(ending.end)


def _print_and_exit(
    print_error: Callable[..., Any],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    print_error(kind, error, trace)
    if isinstance(error, JobError):
        sys.exit(EXIT_CODE)


class _Ending:
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
        """Tells of an exception that ends the program; stands for `sys.excepthook`."""
        explained = self._job.explain(error)
        self._job.fail(explained)
        if isinstance(explained, KeyboardInterrupt):
            # All workers are interrupted at once: one line from each is enough.
            place = describe_user_line(trace)
            print(f"KeyboardInterrupt{place and f' at {place}'}", file=sys.stderr)
            self._exit_code = 128 + signal.SIGINT
            return
        self._print_error(type(explained), explained, trace)
        self._exit_code = 1

    def end(self) -> None:
        """Takes this worker out of the job; called when the program has ended."""
        has_failed = self._job.has_failed
        if has_failed:
            # Or JAX waits at its end for what it computes together with the others.
            self._job.break_off()
        self._job.leave()
        # Or JAX's own end waits until all workers have come to theirs.
        _clients.append(forget_distributed())
        if self._hosted is not None and not has_failed:
            self._hosted.wait()
        if self._job.has_left_thread_behind:
            # That thread is inside of JAX, and would not survive the end of Python.
            self._end_now()
        if has_failed:
            silence = open(os.devnull, "w")  # noqa: SIM115
            faulthandler.dump_traceback_later(_MAX_END_SECONDS, exit=True, file=silence)

    def _end_now(self) -> NoReturn:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(self._exit_code)
