"""A worker's heartbeat: sends its progress, receives replies and failures."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable

from mirrax.cluster.failure import Failure
from mirrax.cluster.job_options import EXIT_CODE
from mirrax.cluster.membership import Membership
from mirrax.cluster.net.messages import Message, ProtocolError
from mirrax.cluster.worker import gloo
from mirrax.cluster.worker.coordinator_client import CoordinatorClient
from mirrax.cluster.worker.stop_agreement import StopAgreement
from mirrax.cluster.worker.streams import flush_output
from mirrax.cluster.worker.tracebacks import describe_main_thread
from mirrax.cluster.worker.wait_scopes import WaitScopes
from mirrax.errors import CollectiveTimeout, JobError, ProgramMismatch, WorkerLost

_HEARTBEAT_SECONDS = 0.5
_RETRY_SECONDS = 0.2
# How long to wait for the coordinator to explain an error of JAX.
_EXPLAIN_SECONDS = 10.0
# The attribute of an error for which that wait is over.
_MARK = "_mirrax_was_awaited"
# How long to try to interrupt the main thread's wait before exiting.
_UNBLOCK_SECONDS = 5.0
_LOGGER = logging.getLogger(__name__)


class Heartbeat:
    """This worker's session with the coordinator, run by two threads.

    Args:
        silence_timeout: Seconds of silence after which the coordinator is lost.
    """

    def __init__(
        self,
        membership: Membership,
        client: CoordinatorClient,
        progress: WaitScopes,
        silence_timeout: float,
    ) -> None:
        self.failure: Failure | None = None
        self.has_left = False
        self._has_raised = False
        self._membership = membership
        self._client = client
        self._progress = progress
        self._silence_timeout = silence_timeout
        self._last_heard = time.monotonic()
        self._answers: list[Message] = []
        self._interrupts: list[Callable[[], object]] = []
        self._changed = threading.Condition()
        self.stop_agreement = StopAgreement(self.send, self.wait_until)
        for target in (self._receive_loop, self._send_loop):
            threading.Thread(target=target, name="mirrax-job", daemon=True).start()

    def send(self, message: Message) -> None:
        """Sends a message; a lost coordinator becomes the failure."""
        try:
            self._client.send(message)
        except OSError:
            self._coordinator_lost()

    def send_progress(self) -> None:
        self.send(Message("progress", self._progress.report().as_fields()))

    def wait_for_answer(self, timeout: float | None = None) -> Message:
        """Returns the coordinator's next reply, or raises the failure."""
        if not self._wait(lambda: self._answers, timeout):
            self._progress.has_given_up = True
            self.send_progress()
            self._wait(lambda: self._answers)
        if not self._answers:
            raise self.make_error()
        return self._answers.pop(0)

    def wait_until(self, is_done: Callable[[], object]) -> None:
        """Waits until `is_done()`, checked at each `notify`; raises the failure."""
        self._wait(is_done)
        if self.failure is not None:
            raise self.make_error()

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def make_error(self) -> JobError:
        assert self.failure is not None
        self._has_raised = True
        is_waiting = self._progress.inside is not None
        return self.failure.to_error(self._progress.report() if is_waiting else None)

    def explain(self, error: BaseException) -> BaseException:
        """Returns the `JobError` behind an error of JAX, or the error itself."""
        if isinstance(error, JobError) or not gloo.is_broken_connection(error):
            return error
        if self.failure is None and not hasattr(error, _MARK):
            # JAX may notice a lost worker before the coordinator reports it.
            self._progress.has_broken_connection = True
            self.send_progress()
            self._wait(lambda: False, _EXPLAIN_SECONDS)
            # The next guard, or the end of the program, need not wait again.
            setattr(error, _MARK, True)
        return error if self.failure is None else self.make_error()

    def on_failure(self, interrupt: Callable[[], object]) -> None:
        """Registers a function that interrupts the main thread's waits."""
        self._interrupts.append(interrupt)

    def interrupt_waits(self) -> None:
        """Interrupts collectives that wait for other workers."""
        for interrupt in self._interrupts:
            interrupt()

    def leave(self) -> None:
        self.has_left = True
        self._client.close()

    def _wait(
        self, is_done: Callable[[], object], timeout: float | None = None
    ) -> bool:
        """Waits until `is_done()` or the job fails; returns False after the timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(is_done()) or self.failure is not None, timeout
            )

    def _receive_loop(self) -> None:
        try:
            for message in self._client.receive():
                self._last_heard = time.monotonic()
                self._handle(message)
        except ProtocolError:
            _LOGGER.exception("The coordinator sent an invalid message.")
        self._coordinator_lost()

    def _handle(self, message: Message) -> None:
        if message.kind in ("exchanged", "start"):
            self._answers.append(message)
            self.notify()
        elif message.kind == "failure":
            self._set_failure(Failure(**message.fields))
        elif message.kind in ("count_steps", "stop_after"):
            self.stop_agreement.receive(message)
            self.notify()
        elif message.kind == "waiting":
            _LOGGER.warning(
                "%s has waited %s.", self._membership.me.name, message["text"]
            )
        elif message.kind == "get_stack":
            line, text = describe_main_thread()
            self.send(Message("stack", {"line": line, "text": text}))

    def _send_loop(self) -> None:
        last_wake = time.monotonic()
        while not self.has_left and self.failure is None:
            self.send_progress()
            self.stop_agreement.announce()
            time.sleep(_HEARTBEAT_SECONDS)
            now = time.monotonic()
            if now - last_wake > 4 * _HEARTBEAT_SECONDS:
                # This process itself was stopped; received messages are unread yet.
                self._last_heard = now
                self._progress.exclude_pause(now - last_wake)
            last_wake = now
            if now - self._last_heard > self._silence_timeout:
                self._coordinator_lost()

    def _coordinator_lost(self) -> None:
        first = self._membership.workers[0]
        message = (
            f"The connection to the coordinator beside {first} has ended: its machine "
            "or its launcher is gone. Restart all workers."
        )
        report = self._progress.report()
        self._set_failure(
            Failure(
                error=WorkerLost.__name__,
                message=message,
                worker=0,
                host=first.host,
                phase=report.phase,
                step=report.step,
            )
        )

    def _set_failure(self, failure: Failure) -> None:
        with self._changed:
            if self.failure is None and not self.has_left:
                self.failure = failure
                threading.Thread(
                    target=self._unblock_main_thread, name="mirrax-job", daemon=True
                ).start()
            self._changed.notify_all()

    def _unblock_main_thread(self) -> None:
        """Interrupts the main thread's wait; exits the process if that fails."""
        deadline = time.monotonic() + _UNBLOCK_SECONDS
        while time.monotonic() < deadline:
            self.interrupt_waits()
            time.sleep(_RETRY_SECONDS)
            is_waiting = self._progress.inside is not None
            if self.has_left or not (is_waiting or self._is_stuck()):
                return
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exception(self.make_error())
        flush_output()
        os._exit(exit_code_of(self.make_error()))

    def _is_stuck(self) -> bool:
        """Returns whether this worker, or all, are stuck and have not noticed yet."""
        failure = self.failure
        return (
            failure is not None
            and not self._has_raised
            and failure.error == CollectiveTimeout.__name__
            and failure.worker in (None, self._membership.worker_index)
        )


def exit_code_of(error: JobError) -> int:
    """Returns the exit code of a worker that ends with an error of the job."""
    # No restart cures a program that differs.
    return 1 if isinstance(error, ProgramMismatch) else EXIT_CODE
