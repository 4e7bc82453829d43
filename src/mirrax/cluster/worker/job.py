"""The job that this process is a worker of: meeting the others, and missing them."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from time import monotonic
from types import TracebackType

import jax

from mirrax.cluster.failure import Failure
from mirrax.cluster.membership import Membership, Worker
from mirrax.cluster.net.messages import Message
from mirrax.cluster.worker.coordinator_client import Link
from mirrax.cluster.worker.heartbeat import EXIT_CODE as EXIT_CODE
from mirrax.cluster.worker.heartbeat import Member
from mirrax.cluster.worker.progress import Progress, Stretch
from mirrax.errors import JobError

_MAX_TRACEBACK = 20_000


class Guard(Stretch):
    """A stretch that ends with a `JobError` when the job does.

    Goes around every step, so it writes into the progress without any more calls.
    """

    __slots__ = ("_member", "_outer", "_progress")

    def __init__(
        self, member: Member, progress: Progress, phase: str, step: int | None
    ) -> None:
        self._member = member
        self._progress = progress
        self.phase = phase
        self.step = step

    def __enter__(self) -> Guard:
        progress = self._progress
        self._outer = progress.inside
        progress.count = self.count = progress.count + 1
        self.since = monotonic()
        progress.inside = self
        if self._member.failure is not None:
            error = self._member.make_error()
            progress.inside = self._outer
            raise error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        explained = None if error is None else self._member.explain(error)
        progress = self._progress
        progress.inside = self._outer
        progress.last = self
        seconds = monotonic() - self.since
        if seconds > progress.longest:
            progress.longest = seconds
        else:
            # What was long ago, such as compiling, is forgotten in time.
            progress.longest *= 0.999
        if explained is not None and explained is not error:
            # What JAX said of it is a consequence, and tells less.
            raise explained from None


class Job:
    """A job of several workers, as one of them sees it.

    Made by `mirrax.cluster.join`, one for each process.

    Args:
        membership: Who takes part, and which of them this process is.
        link: The connection to the coordinator.
        stuck_timeout: After how many seconds of waiting the others count as stuck;
            None to learn it from the steps.
        silence_timeout: After how many seconds without a sign of life the coordinator
            counts as lost.
    """

    def __init__(
        self,
        membership: Membership,
        link: Link,
        stuck_timeout: float | None = None,
        silence_timeout: float = 30.0,
    ) -> None:
        self.workers = membership.workers
        self.worker_index = membership.worker_index
        self._progress = Progress(stuck_timeout)
        self._member = Member(membership, link, self._progress, silence_timeout)
        # One at a time: the answers have no other mark than their order.
        self._lock = threading.Lock()
        self._num_exchanges = 0
        self._has_failed = False
        self.has_left_thread_behind = False

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
    def failure(self) -> Failure | None:
        """What ended the job, None as long as nothing has."""
        return self._member.failure

    @property
    def has_failed(self) -> bool:
        """Whether the job cannot go on, because of this worker or another one."""
        return self._has_failed or self.failure is not None

    def guard(self, phase: str, step: int | None = None) -> Guard:
        """Returns a context in which this worker may wait for the others.

        Every worker enters the same ones in the same order. If another worker dies,
        fails or is stuck, what waits in here ends, and one `JobError` is raised.

            with job.guard("run", step):
                loss.block_until_ready()
        """
        return Guard(self._member, self._progress, phase, step)

    def watch(self, value: jax.Array, phase: str, step: int | None = None) -> None:
        """Counts as waiting for the others until `value` is there.

        For what JAX computes while the program goes on. Keeps no reference to it.
        """
        self._progress.watch(value, Stretch(phase, step))

    def exchange(
        self, topic: str, payload: bytes, timeout: float | None = None
    ) -> list[bytes]:
        """Returns what every worker has given, in the order of the workers.

        All workers call this with the same topics in the same order. For small
        messages: they go through one process.
        """
        with self._lock, self.guard(topic):
            fields = {"number": self._num_exchanges, "topic": topic}
            self._num_exchanges += 1
            self._member.send(Message("exchange", fields, payload))
            answer = self._member.wait_for_answer(timeout)
        return _split(answer)

    def wait_for_start(self) -> None:
        """Waits until all workers have joined."""
        with self.guard("start-up"):
            self._member.wait_for_answer()

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
            outcome.append(error)
            self._member.notify()

        with self.guard(phase):
            threading.Thread(target=run, name="mirrax-job", daemon=True).start()
            self.has_left_thread_behind = True
            self._member.wait_until(lambda: outcome)
            self.has_left_thread_behind = False
            if outcome[0] is not None:
                raise outcome[0]

    def break_with(self, breaker: Callable[[], object]) -> None:
        """Registers what ends the main thread's waiting when the job has failed."""
        self._member.break_with(breaker)

    def break_off(self) -> None:
        """Ends what this worker computes together with the others."""
        self._member.break_off()

    def explain(self, error: BaseException) -> BaseException:
        """Returns the `JobError` behind an error of JAX, or the error itself."""
        return self._member.explain(error)

    def end_start(self) -> None:
        """Notes that from here on steps are taken."""
        self._progress.forget_times()

    def fail(self, error: BaseException) -> None:
        """Tells all others that this worker has failed, and why."""
        if self.has_failed or self._member.has_left or isinstance(error, JobError):
            return
        self._has_failed = True
        # Whoever interrupts one worker interrupts all; where each was says little.
        is_interrupt = isinstance(error, KeyboardInterrupt)
        limit = 0 if is_interrupt else None
        text = "".join(traceback.format_exception(error, limit=limit))
        self._member.send_position()
        self._member.send(Message("failed", {"traceback": text[-_MAX_TRACEBACK:]}))

    def leave(self) -> None:
        """Says that this worker is done; the others may go on without it."""
        if not self._member.has_left:
            self._member.send_position()
            self._member.send(Message("bye"))
        self._member.leave()


def _split(answer: Message) -> list[bytes]:
    parts = []
    start = 0
    for size in answer["sizes"]:
        parts.append(answer.payload[start : start + size])
        start += size
    return parts
