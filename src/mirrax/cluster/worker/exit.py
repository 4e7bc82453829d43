"""Exit handling of a worker: notifies the job, avoids hangs, sets the exit code."""

from __future__ import annotations

import atexit
import faulthandler
import functools
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from mirrax._jax.distributed import forget_distributed
from mirrax.cluster import step_record
from mirrax.cluster.coordinator.process import Coordinator
from mirrax.cluster.job_options import EXIT_CODE, JobOptions
from mirrax.cluster.worker.heartbeat import exit_code_of
from mirrax.cluster.worker.job import Job
from mirrax.cluster.worker.streams import flush_output
from mirrax.cluster.worker.tracebacks import (
    describe_user_line,
    hide_own_frames,
    summarize,
)
from mirrax.errors import JobError

# At exit JAX may wait for its devices, and these for a lost worker.
_MAX_END_SECONDS = 10
# Kept alive to the end: the devices still use the client that JAX must forget.
_clients: list[Any] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived, and nothing in the program handles it."""


def install_exit_code() -> None:
    """Makes an uncaught `JobError` end the program with its own exit code."""
    sys.excepthook = functools.partial(_print_and_exit, sys.excepthook)


def install(job: Job, hosted: Coordinator | None, options: JobOptions) -> None:
    """Makes this process report its exit to the job; after `install_exit_code`.

    Args:
        hosted: The coordinator, if this process started it.
    """
    handler = _ExitHandler(job, hosted, options, sys.excepthook)
    sys.excepthook = handler.report
    sys.exit = handler.exit
    atexit.register(handler.end)
    os.register_at_fork(after_in_child=handler.release)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Otherwise the others would report a lost worker, without the reason.
        signal.signal(signal.SIGTERM, _terminate)


def _exit_code_of_interrupt(error: BaseException) -> int:
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def _print_and_exit(
    print_error: Callable[..., Any],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    summary = summarize(error, trace)
    if summary:
        print(summary, file=sys.stderr)
    else:
        print_error(kind, error, trace)
    if isinstance(error, JobError):
        sys.exit(exit_code_of(error))


class _WorkerExit(SystemExit):
    """A SystemExit that calls `report` when it ends the process.

    Python has no hook for that, but reads `code` then, without a Python frame.
    """

    def __init__(self, status: object, report: Callable[..., None]) -> None:
        super().__init__(status)
        self._report = report

    @property
    def code(self) -> Any:  # type: ignore[override]
        status = self.args[0]
        if sys._getframe().f_back is None:
            self._report(status, self.__traceback__)
        return status


class _ExitHandler:
    def __init__(
        self,
        job: Job,
        hosted: Coordinator | None,
        options: JobOptions,
        print_error: Callable[..., Any],
    ) -> None:
        self._job = job
        self._hosted = hosted
        self._options = options
        self._print_error = print_error
        self._python_exit = sys.exit
        self._exit_code = EXIT_CODE

    def report(
        self,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        """Reports an uncaught exception to the job; replaces `sys.excepthook`."""
        is_sigterm = isinstance(error, Terminated)
        if is_sigterm:
            # Schedulers send it more than once.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        explained = self._job.heartbeat.explain(error)
        hide_own_frames(error)
        trace = error.__traceback__
        self._job.fail(KeyboardInterrupt("SIGTERM") if is_sigterm else explained)
        if isinstance(explained, KeyboardInterrupt):
            # All workers are interrupted at once: one line from each is enough.
            line = describe_user_line(trace)
            what = "SIGTERM" if is_sigterm else "KeyboardInterrupt"
            print(f"{what}{line and f' at {line}'}", file=sys.stderr)
            self._exit_code = _exit_code_of_interrupt(error)
            if is_sigterm:
                sys.exit(self._exit_code)
            return
        self._print_error(type(explained), explained, trace)
        self._exit_code = 1

    def exit(self, status: object = None, /) -> NoReturn:
        """Raises a SystemExit that is reported to the job; replaces `sys.exit`."""
        if threading.current_thread() is not threading.main_thread():
            # Python ends other threads silently for this exact type only.
            raise SystemExit(status)
        raise _WorkerExit(status, self._report_exit)

    def release(self) -> None:
        """Undoes `install`, in a forked process: that is no worker.

        It shares the connections, and would end those of the worker at its exit.
        """
        atexit.unregister(self.end)
        sys.excepthook, sys.exit = self._print_error, self._python_exit
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _clients.append(forget_distributed())
        if self._hosted is not None:
            self._hosted.close()

    def _report_exit(self, status: object, trace: TracebackType | None) -> None:
        if isinstance(status, int):
            self._exit_code = status
        elif status is not None:
            self._exit_code = 1
        else:
            return
        # After a stop that all agreed on, the others do the same.
        is_stop = self._job.stop_agreement.is_over
        is_planned = is_stop and self._exit_code == self._options.requeue_code
        if is_planned:
            step_record.report_preemption()
        elif self._exit_code != 0:
            line = describe_user_line(trace)
            self._job.fail(SystemExit(f"{status!r}{line and f' at {line}'}"))

    def end(self) -> None:
        has_failed = self._job.has_failed
        if has_failed:
            # Otherwise JAX waits at exit for unfinished collectives.
            self._job.heartbeat.interrupt_waits()
        self._job.leave()
        # Otherwise JAX's shutdown waits for all workers to shut down.
        _clients.append(forget_distributed())
        if self._hosted is not None and not has_failed:
            try:
                self._hosted.wait(self._options.idle_timeout)
            except KeyboardInterrupt as error:
                self._exit_code = _exit_code_of_interrupt(error)
                self._exit_now()
        if self._job.has_abandoned_thread:
            # That thread is inside JAX and would crash when Python shuts down.
            self._exit_now()
        if has_failed or self._job.stop_agreement.is_over:
            # Python need not search for garbage: a restart waits for this process.
            gc.freeze()
        if has_failed:
            silence = open(os.devnull, "w")  # noqa: SIM115
            faulthandler.dump_traceback_later(_MAX_END_SECONDS, exit=True, file=silence)

    def _exit_now(self) -> NoReturn:
        logging.shutdown()
        flush_output()
        os._exit(self._exit_code)
