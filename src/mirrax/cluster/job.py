"""The job that this process is a worker of: meeting the others, and missing them."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import jax

from mirrax.cluster import gloo
from mirrax.cluster.link import Link
from mirrax.cluster.position import Position
from mirrax.cluster.stacks import describe_main_thread
from mirrax.cluster.verdict import Verdict, read_verdict
from mirrax.cluster.wire import Message, WireError
from mirrax.cluster.workers import Membership, Worker
from mirrax.errors import CollectiveTimeout, JobError, WorkerLost

EXIT_CODE = 75
"""How a worker ends that could not go on because of another one: try again."""

_BEAT_SECONDS = 0.5
_BREAK_SECONDS = 0.2
# After JAX has failed, for so long the coordinator may say why.
_NEWS_SECONDS = 3.0
# A main thread that does not come back this long after the verdict never will.
_PATIENCE_SECONDS = 10.0
_MIN_STUCK_SECONDS = 300.0
_STEPS_UNTIL_STUCK = 10.0
_LOGGER = logging.getLogger(__name__)


class Guard:
    """A stretch of the program in which this worker may wait for the others."""

    __slots__ = ("_job", "_outer", "count", "phase", "since", "step")

    def __init__(self, job: Job, phase: str, step: int | None) -> None:
        self._job = job
        self.phase = phase
        self.step = step

    def __enter__(self) -> Guard:
        job = self._job
        if job.verdict is not None:
            raise job.verdict.to_error(Position(0, self.phase, self.step))
        job.count = self.count = job.count + 1
        self.since = time.monotonic()
        self._outer = job.inside
        job.inside = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        job = self._job
        try:
            if error is not None:
                explained = job.explain(error)
                if explained is not error:
                    # What JAX said of it is a consequence, and tells less.
                    raise explained from None
        finally:
            job.inside = self._outer
            job.last = self
            # What was long ago, such as compiling, is forgotten in time.
            seconds = time.monotonic() - self.since
            job.longest = max(0.999 * job.longest, seconds)


class Job:
    """A job of several workers, as one of them sees it.

    Made by `mirrax.cluster.join`, one for each process.

    Args:
        membership: Who takes part, and which of them this process is.
        link: The connection to the coordinator.
        stuck_timeout: After how many seconds of waiting the others count as stuck;
            None to learn it from the steps.
    """

    def __init__(
        self, membership: Membership, link: Link, stuck_timeout: float | None = None
    ) -> None:
        self.workers = membership.workers
        self.worker_index = membership.worker_index
        self.verdict: Verdict | None = None
        self.count = 0
        self.longest = 0.0
        self.inside: Guard | None = None
        self.last: Guard | None = None
        self._link = link
        self._stuck_timeout = stuck_timeout
        self._pending: tuple[weakref.ref[Any], Guard] | None = None
        self._news = threading.Condition()
        self._answers: list[Message] = []
        self._num_exchanges = 0
        self._has_left = False
        self._has_failed = False
        self._breakers: list[Callable[[], object]] = []
        for target in (self._listen, self._beat):
            threading.Thread(target=target, name="mirrax-job", daemon=True).start()

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return len(self.workers)

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that does what one must do for all."""
        return self.worker_index == 0

    @property
    def me(self) -> Worker:
        """This worker."""
        return self.workers[self.worker_index]

    @property
    def has_failed(self) -> bool:
        """Whether the job cannot go on, because of this worker or another one."""
        return self._has_failed or self.verdict is not None

    def guard(self, phase: str, step: int | None = None) -> Guard:
        """Returns a context in which this worker may wait for the others.

        Every worker enters the same ones in the same order. If another worker dies,
        fails or is stuck, what waits in here ends, and one `JobError` is raised.

            with job.guard("run", step):
                loss.block_until_ready()
        """
        return Guard(self, phase, step)

    def watch(self, value: jax.Array, phase: str, step: int | None = None) -> None:
        """Counts as waiting for the others until `value` is there.

        For what JAX computes while the program goes on. Keeps no reference to it.
        """
        guard = Guard(self, phase, step)
        guard.count = self.count
        guard.since = time.monotonic()
        self._pending = (weakref.ref(value), guard)

    def exchange(
        self, topic: str, payload: bytes, timeout: float | None = None
    ) -> list[bytes]:
        """Returns what every worker has given, in the order of the workers.

        All workers call this with the same topics in the same order. For small
        messages: they go through one process.
        """
        with Guard(self, topic, None) as guard:
            number = self._num_exchanges
            self._num_exchanges += 1
            self._send(Message("exchange", {"number": number, "topic": topic}, payload))
            with self._news:
                if not self._news.wait_for(self._has_news, timeout):
                    position = self._position(guard)
                    self._send(Message("stuck", position.as_fields()))
                    self._news.wait_for(self._has_news, _NEWS_SECONDS)
                if not self._answers and self.verdict is not None:
                    raise self.verdict.to_error(self._position(guard))
                answer = self._answers.pop(0)
        return _split(answer)

    def wait_for_start(self) -> None:
        """Waits until all workers have joined."""
        with Guard(self, "start-up", None) as guard, self._news:
            self._news.wait_for(self._has_news)
            if self.verdict is not None:
                raise self.verdict.to_error(self._position(guard))
            self._answers.clear()

    def run_aside(self, phase: str, work: Callable[[], object]) -> None:
        """Runs what cannot be interrupted in another thread, and waits for it.

        If the job fails meanwhile, that thread is left behind.
        """
        outcome: list[BaseException | None] = []

        def run() -> None:
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:
                error = raised
            with self._news:
                outcome.append(error)
                self._news.notify_all()

        with Guard(self, phase, None) as guard:
            threading.Thread(target=run, name="mirrax-job", daemon=True).start()
            with self._news:
                self._news.wait_for(lambda: outcome or self.verdict is not None)
            if self.verdict is not None:
                raise self.verdict.to_error(self._position(guard))
            if outcome[0] is not None:
                raise outcome[0]

    def on_verdict(self, breaker: Callable[[], object]) -> None:
        """Registers what ends the main thread's waiting when the job has failed."""
        self._breakers.append(breaker)

    def explain(self, error: BaseException) -> BaseException:
        """Returns the `JobError` behind an error of JAX, or the error itself."""
        if isinstance(error, JobError) or not gloo.is_broken_connection(error):
            return error
        position = self._position(self.inside)
        if self.verdict is None:
            # JAX may see that a worker is gone before the coordinator has said so.
            self._send(Message("broken", position.as_fields()))
            with self._news:
                self._news.wait_for(lambda: self.verdict is not None, _NEWS_SECONDS)
        return error if self.verdict is None else self.verdict.to_error(position)

    def fail(self, error: BaseException) -> None:
        """Tells all others that this worker has failed, and why."""
        if self.verdict is not None or self._has_left or isinstance(error, JobError):
            return
        text = "".join(traceback.format_exception(error))
        self._send(Message("position", self._position(self.inside).as_fields()))
        self._send(Message("failed", {"traceback": text[-20_000:]}))
        self._has_left = self._has_failed = True

    def leave(self) -> None:
        """Says that this worker is done; the others may go on without it."""
        if not self._has_left:
            self._has_left = True
            self._send(Message("position", self._position(self.inside).as_fields()))
            self._send(Message("bye"))
        self._link.close()

    def _has_news(self) -> bool:
        return bool(self._answers) or self.verdict is not None

    def _send(self, message: Message) -> None:
        try:
            self._link.send(message)
        except OSError:
            self._lose_coordinator()

    def _position(self, guard: Guard | None) -> Position:
        last = guard or self.last
        if last is None:
            return Position(self.count)
        waiting = None if guard is None else time.monotonic() - guard.since
        return Position(last.count, last.phase, last.step, waiting, self._limit())

    def _limit(self) -> float:
        if self._stuck_timeout is not None:
            return self._stuck_timeout
        return max(_MIN_STUCK_SECONDS, _STEPS_UNTIL_STUCK * self.longest)

    def _waits_in(self) -> Guard | None:
        """Returns where the program waits, or what JAX has not computed yet."""
        if self.inside is not None:
            return self.inside
        pending = self._pending
        if pending is None:
            return None
        value = pending[0]()
        if value is None or value.is_deleted() or value.is_ready():
            if self._pending is pending:
                self._pending = None
            return None
        return pending[1]

    def _listen(self) -> None:
        try:
            for message in self._link.receive():
                self._hear(message)
        except WireError:
            _LOGGER.exception("The coordinator sends what is no message.")
        if not self._has_left:
            self._lose_coordinator()

    def _hear(self, message: Message) -> None:
        if message.kind in ("exchanged", "go"):
            with self._news:
                self._answers.append(message)
                self._news.notify_all()
        elif message.kind == "verdict":
            self._conclude(read_verdict(message))
        elif message.kind == "waiting":
            _LOGGER.warning("%s has waited %s.", self.me.name, message["text"])
        elif message.kind == "where":
            line, text = describe_main_thread()
            self._send(Message("stack", {"line": line, "text": text}))

    def _lose_coordinator(self) -> None:
        first = self.workers[0]
        message = (
            f"The connection to the coordinator beside {first} has ended: its machine "
            "or its launcher is gone. All workers must be started again."
        )
        position = self._position(self.inside)
        self._conclude(
            Verdict(
                error=WorkerLost.__name__,
                message=message,
                worker=0,
                host=first.host,
                phase=position.phase,
                step=position.step,
            )
        )

    def _conclude(self, verdict: Verdict) -> None:
        with self._news:
            if self.verdict is None and not self._has_left:
                self.verdict = verdict
                threading.Thread(
                    target=self._break_off, name="mirrax-job", daemon=True
                ).start()
            self._news.notify_all()

    def _beat(self) -> None:
        while not self._has_left and self.verdict is None:
            position = self._position(self._waits_in())
            self._send(Message("position", position.as_fields()))
            time.sleep(_BEAT_SECONDS)

    def _break_off(self) -> None:
        """Ends the waiting of the main thread, whatever it takes."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for breaker in self._breakers:
                breaker()
            time.sleep(_BREAK_SECONDS)
            if self._has_left or (self._waits_in() is None and not self._is_stuck()):
                return
        assert self.verdict is not None
        traceback.print_exception(self.verdict.to_error(self._position(self.inside)))
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(EXIT_CODE)

    def _is_stuck(self) -> bool:
        """Returns whether the job has failed because this worker is stuck."""
        verdict = self.verdict
        return (
            verdict is not None
            and verdict.error == CollectiveTimeout.__name__
            and verdict.worker == self.worker_index
        )


def _split(answer: Message) -> list[bytes]:
    parts = []
    start = 0
    for size in answer["sizes"]:
        parts.append(answer.payload[start : start + size])
        start += size
    return parts
