"""A worker's side of the job: signs of life go out, answers and verdicts come in."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

from mirrax.cluster.failure import Failure, read_failure
from mirrax.cluster.membership import Membership
from mirrax.cluster.net.messages import Message, WireError
from mirrax.cluster.worker import gloo
from mirrax.cluster.worker.coordinator_client import Link
from mirrax.cluster.worker.progress import Progress
from mirrax.cluster.worker.stack_traces import describe_main_thread
from mirrax.errors import CollectiveTimeout, JobError, WorkerLost

EXIT_CODE = 75
"""How a worker ends that could not go on because of another one: try again."""

_BEAT_SECONDS = 0.5
_BREAK_SECONDS = 0.2
# After JAX has failed, for so long the coordinator may say why.
_NEWS_SECONDS = 3.0
# A main thread that does not come back this long after the failure never will.
_PATIENCE_SECONDS = 5.0
_LOGGER = logging.getLogger(__name__)


class Member:
    """The connection of this worker to all others, kept alive by two threads.

    Args:
        membership: Who takes part, and which of them this process is.
        link: The connection to the coordinator.
        progress: Where this worker is.
        silence_timeout: After how many seconds without a sign of life the coordinator
            counts as lost.
    """

    def __init__(
        self,
        membership: Membership,
        link: Link,
        progress: Progress,
        silence_timeout: float,
    ) -> None:
        self.failure: Failure | None = None
        self.has_left = False
        self._membership = membership
        self._link = link
        self._progress = progress
        self._silence_timeout = silence_timeout
        self._heard = time.monotonic()
        self._answers: list[Message] = []
        self._breakers: list[Callable[[], object]] = []
        self._news = threading.Condition()
        for target in (self._listen, self._beat):
            threading.Thread(target=target, name="mirrax-job", daemon=True).start()

    def send(self, message: Message) -> None:
        """Sends a message; if the coordinator is gone, that is the failure."""
        try:
            self._link.send(message)
        except OSError:
            self._lose_coordinator()

    def send_position(self, kind: str = "position") -> None:
        """Tells where this worker is."""
        self.send(Message(kind, self._progress.position().as_fields()))

    def wait_for_answer(self, timeout: float | None = None) -> Message:
        """Returns the coordinator's next answer, or raises the failure.

        Args:
            timeout: After how many seconds the others count as stuck.
        """
        with self._news:
            if not self._news.wait_for(self._has_news, timeout):
                self.send_position("stuck")
                self._news.wait_for(self._has_news)
            if not self._answers:
                raise self.make_error()
            return self._answers.pop(0)

    def wait_until(self, is_done: Callable[[], object]) -> None:
        """Waits for something that calls `notify`, or raises the failure."""
        with self._news:
            self._news.wait_for(lambda: is_done() or self.failure is not None)
        if self.failure is not None:
            raise self.make_error()

    def notify(self) -> None:
        """Lets those that wait look again."""
        with self._news:
            self._news.notify_all()

    def make_error(self) -> JobError:
        """Returns the error that says what the failure is."""
        assert self.failure is not None
        is_waiting = self._progress.inside is not None
        return self.failure.to_error(self._progress.position() if is_waiting else None)

    def explain(self, error: BaseException) -> BaseException:
        """Returns the `JobError` behind an error of JAX, or the error itself."""
        if isinstance(error, JobError) or not gloo.is_broken_connection(error):
            return error
        if self.failure is None:
            # JAX may see that a worker is gone before the coordinator has said so.
            self.send_position("broken")
            with self._news:
                self._news.wait_for(lambda: self.failure is not None, _NEWS_SECONDS)
        return error if self.failure is None else self.make_error()

    def break_with(self, breaker: Callable[[], object]) -> None:
        """Registers what ends the main thread's waiting when there is a failure."""
        self._breakers.append(breaker)

    def break_off(self) -> None:
        """Ends what waits for other workers in this process."""
        for breaker in self._breakers:
            breaker()

    def leave(self) -> None:
        """Ends the connection."""
        self.has_left = True
        self._link.close()

    def _has_news(self) -> bool:
        return bool(self._answers) or self.failure is not None

    def _listen(self) -> None:
        try:
            for message in self._link.receive():
                self._heard = time.monotonic()
                self._hear(message)
        except WireError:
            _LOGGER.exception("The coordinator sends what is no message.")
        self._lose_coordinator()

    def _hear(self, message: Message) -> None:
        if message.kind in ("exchanged", "go"):
            self._answers.append(message)
            self.notify()
        elif message.kind == "failure":
            self._conclude(read_failure(message))
        elif message.kind == "waiting":
            _LOGGER.warning(
                "%s has waited %s.", self._membership.me.name, message["text"]
            )
        elif message.kind == "where":
            line, text = describe_main_thread()
            self.send(Message("stack", {"line": line, "text": text}))

    def _beat(self) -> None:
        woken = time.monotonic()
        while not self.has_left and self.failure is None:
            self.send_position()
            time.sleep(_BEAT_SECONDS)
            now = time.monotonic()
            if now - woken > 4 * _BEAT_SECONDS:
                # This process was stopped itself, and has yet to read what came.
                self._heard = now
            woken = now
            if now - self._heard > self._silence_timeout:
                self._lose_coordinator()

    def _lose_coordinator(self) -> None:
        first = self._membership.workers[0]
        message = (
            f"The connection to the coordinator beside {first} has ended: its machine "
            "or its launcher is gone. All workers must be started again."
        )
        position = self._progress.position()
        self._conclude(
            Failure(
                error=WorkerLost.__name__,
                message=message,
                worker=0,
                host=first.host,
                phase=position.phase,
                step=position.step,
            )
        )

    def _conclude(self, failure: Failure) -> None:
        with self._news:
            if self.failure is None and not self.has_left:
                self.failure = failure
                threading.Thread(
                    target=self._free_main_thread, name="mirrax-job", daemon=True
                ).start()
            self._news.notify_all()

    def _free_main_thread(self) -> None:
        """Ends the waiting of the main thread, whatever it takes."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            self.break_off()
            time.sleep(_BREAK_SECONDS)
            is_waiting = self._progress.find_wait() is not None
            if self.has_left or not (is_waiting or self._is_stuck()):
                return
        traceback.print_exception(self.make_error())
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(EXIT_CODE)

    def _is_stuck(self) -> bool:
        """Returns whether the job has failed because this worker is stuck."""
        failure = self.failure
        return (
            failure is not None
            and failure.error == CollectiveTimeout.__name__
            and failure.worker == self._membership.worker_index
        )
