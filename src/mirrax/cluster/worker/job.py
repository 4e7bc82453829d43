"""The job of this process, as one of its workers: exchanges, guards, failures."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from types import TracebackType

from mirrax.cluster.failure import Failure
from mirrax.cluster.membership import Membership, Worker
from mirrax.cluster.net.messages import Message
from mirrax.cluster.worker.coordinator_client import CoordinatorClient
from mirrax.cluster.worker.heartbeat import Heartbeat
from mirrax.cluster.worker.stop_agreement import StopAgreement
from mirrax.cluster.worker.wait_scopes import WaitScope, WaitScopes
from mirrax.errors import JobError

_MAX_TRACEBACK = 20_000


class Guard(WaitScope):
    """A wait scope that raises a `JobError` when the job fails.

    Entered in every step, so it updates the progress inline.
    """

    __slots__ = ("_heartbeat", "_outer", "_progress")

    def __init__(self, heartbeat: Heartbeat, progress: WaitScopes, phase: str) -> None:
        self._heartbeat = heartbeat
        self._progress = progress
        self.phase = phase

    def __enter__(self) -> Guard:
        progress = self._progress
        self._outer = progress.inside
        progress.count = self.count = progress.count + 1
        self.since = monotonic()
        progress.inside = self
        if self._heartbeat.failure is not None:
            error = self._heartbeat.make_error()
            progress.inside = self._outer
            raise error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        explained = None if error is None else self._heartbeat.explain(error)
        progress = self._progress
        progress.inside = self._outer
        progress.last = self
        seconds = monotonic() - self.since
        if seconds > progress.longest:
            progress.longest = seconds
        else:
            # Decays, so that compilation does not count forever.
            progress.longest *= 0.999
        if explained is not None and explained is not error:
            # The error of JAX is a consequence and says less.
            raise explained from None


class Job:
    """A job of several workers, as one of them sees it; made by `join_job`.

    Args:
        stuck_timeout: Seconds of waiting after which the others count as stuck; None to
            derive it from the longest step.
        silence_timeout: Seconds of silence after which the coordinator is lost.
        startup_timeout: The limit in place of `stuck_timeout` until `finish_startup`.
    """

    def __init__(
        self,
        membership: Membership,
        client: CoordinatorClient,
        stuck_timeout: float | None = None,
        silence_timeout: float = 30.0,
        startup_timeout: float | None = None,
    ) -> None:
        self.workers = membership.workers
        self.worker_index = membership.worker_index
        self._progress = WaitScopes(stuck_timeout, startup_timeout)
        self.heartbeat = Heartbeat(membership, client, self._progress, silence_timeout)
        # One at a time: replies are matched by their order.
        self._lock = threading.Lock()
        self._has_failed = False
        self.has_abandoned_thread = False

    @property
    def num_workers(self) -> int:
        return len(self.workers)

    @property
    def is_chief(self) -> bool:
        return self.worker_index == 0

    @property
    def me(self) -> Worker:
        return self.workers[self.worker_index]

    @property
    def stop_agreement(self) -> StopAgreement:
        """Stops all workers after the same step."""
        return self.heartbeat.stop_agreement

    @property
    def failure(self) -> Failure | None:
        return self.heartbeat.failure

    @property
    def has_failed(self) -> bool:
        return self._has_failed or self.failure is not None

    def guard(self, phase: str) -> Guard:
        """Returns a context manager for code that may wait for other workers.

        All workers enter the same guards in the same order. If another worker dies,
        fails or is stuck, the wait is interrupted and a `JobError` is raised.
        """
        return Guard(self.heartbeat, self._progress, phase)

    def exchange(
        self, topic: str, payload: bytes, timeout: float | None = None
    ) -> list[bytes]:
        """Returns the payloads of all workers, in order.

        All workers call this with the same topics in the same order. For small
        payloads: they go through the coordinator.
        """
        with self._lock, self.guard(topic):
            self.heartbeat.send(Message("exchange", {"topic": topic}, payload))
            answer = self.heartbeat.wait_for_answer(timeout)
        return _split(answer)

    def wait_for_start(self) -> None:
        with self.guard("start-up"):
            self.heartbeat.wait_for_answer()

    def run_in_thread(self, phase: str, work: Callable[[], object]) -> None:
        """Runs uninterruptible work in a thread and waits for it.

        The thread is abandoned if the job fails meanwhile.
        """
        done: Future[object] = Future()
        done.add_done_callback(lambda _: self.heartbeat.notify())

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        with self.guard(phase):
            threading.Thread(target=run, name="mirrax-job", daemon=True).start()
            self.has_abandoned_thread = True
            self.heartbeat.wait_until(done.done)
            self.has_abandoned_thread = False
            done.result()

    def finish_startup(self) -> None:
        """Ends the start-up, which has a limit of its own."""
        self._progress.finish_startup()

    def fail(self, error: BaseException) -> None:
        """Reports to the others that this worker has failed, and why."""
        if self.has_failed or self.heartbeat.has_left or isinstance(error, JobError):
            return
        self._has_failed = True
        # All workers are interrupted together, so the stacks say little.
        is_interrupt = isinstance(error, KeyboardInterrupt)
        limit = 0 if is_interrupt else None
        text = "".join(traceback.format_exception(error, limit=limit))
        self.heartbeat.send_progress()
        self.heartbeat.send(Message("failed", {"traceback": text[-_MAX_TRACEBACK:]}))

    def leave(self) -> None:
        """Reports that this worker is done; the others may continue."""
        if not self.heartbeat.has_left:
            self.heartbeat.send_progress()
            self.heartbeat.send(Message("leave"))
        self.heartbeat.leave()


def _split(answer: Message) -> list[bytes]:
    parts: list[bytes] = []
    start = 0
    for count, size in answer["counts_and_sizes"]:
        parts += [answer.payload[start : start + size]] * count
        start += size
    return parts
