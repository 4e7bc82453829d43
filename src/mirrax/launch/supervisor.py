"""Starts the workers of a job on this machine, and stops them all at its end."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from mirrax.cluster import step_record
from mirrax.cluster.coordinator.process import Coordinator
from mirrax.cluster.job_options import read_options
from mirrax.cluster.net.handshake import derive_key
from mirrax.cluster.step_record import AttemptSteps
from mirrax.launch.job_result import JobResult, make_result
from mirrax.launch.orphan_guard import OrphanGuard
from mirrax.launch.worker_output import WorkerOutput
from mirrax.launch.worker_plan import LaunchPlan, make_environment
from mirrax.launch.worker_process import WorkerProcess

_POLL_SECONDS = 0.02
# How long to wait for the last lines of all workers.
_OUTPUT_SECONDS = 10.0
# When to say that workers are still running after a signal, or on other machines.
_REMINDER_SECONDS = 3.0


@dataclasses.dataclass
class Supervisor:
    """Runs the workers of one machine, in one attempt.

    Args:
        folder: A folder for files of the job; removed if this process dies.
        show: Called with each line of output, prefixed with its worker.
        signals: The signals received so far, see `received_signals`.
        devices_per_worker: CPU devices of each worker; None for the configured number.
        show_bar: Called with each state of the first worker's progress bar.
        attempt: How many attempts came before; later ones append to the log files.
        ended_elsewhere: Returns how workers of other machines have ended, and whether
            they failed, by index.
        report_exit: Called with the same of a worker here, if the coordinator is
            elsewhere.
    """

    plan: LaunchPlan
    command: Sequence[str]
    folder: pathlib.Path
    _: dataclasses.KW_ONLY
    environment: Mapping[str, str]
    show: Callable[[str], None]
    signals: Sequence[int]
    devices_per_worker: int | None = None
    log_folder: pathlib.Path | None = None
    show_bar: Callable[[str], None] = lambda _: None
    grace: float = 30.0
    attempt: int = 0
    ended_elsewhere: Callable[[], Mapping[int, tuple[str, bool]]] = dict
    report_exit: Callable[[int, str, bool], object] = lambda *_: None

    def __post_init__(self) -> None:
        self.failed_at: float | None = None
        # The steps of the first worker here.
        self._record = self.folder / f"steps-{self.attempt}"
        step_record.create(self._record)
        self._options = read_options(self.environment)
        self._processes: list[WorkerProcess] = []
        self._failed: list[int] = []
        self._deadline: float | None = None
        self._reminder: float | None = None
        self._coordinator: Coordinator | None = None
        self._num_forwarded = 0
        # The workers of other machines whose ends the coordinator knows.
        self._reported: set[int] = set()

    @property
    def steps(self) -> AttemptSteps:
        return step_record.read(self._record)

    def run(
        self, timeout: float = math.inf, poll: Callable[[], object] = lambda: None
    ) -> JobResult:
        """Runs the job to its end; stops the workers on KeyboardInterrupt."""
        end = time.monotonic() + timeout
        guard = OrphanGuard()
        guard.remove(self.folder)
        failure = coordinator_code = None
        try:
            self._coordinator = self._start_coordinator()
            self._start(guard)
            timed_out = self._wait(end, poll)
        finally:
            for process in self._processes:
                process.kill()
            if self._coordinator is not None:
                coordinator_code = self._coordinator.exit_code
                failure = self._coordinator.stop()
            guard.close()
        deadline = time.monotonic() + _OUTPUT_SECONDS
        for process in self._processes:
            process.finish(max(0.0, deadline - time.monotonic()))
        signal_number = self.signals[0] if self.signals else None
        return make_result(
            self.plan,
            self._processes,
            self._failed,
            signal_number,
            failure,
            timed_out,
            self.steps,
            coordinator_code,
        )

    def _start_coordinator(self) -> Coordinator | None:
        if not self.plan.hosts_coordinator:
            return None
        host, port = self.plan.coordinator
        options = self._options
        return Coordinator(
            host=options.bind or host,
            port=port,
            key=derive_key(
                self.plan.workers[0].address, self.plan.token, options.secret
            ),
            workers=self.plan.workers,
            options=options,
            is_launched=True,
        )

    def _start(self, guard: OrphanGuard) -> None:
        coordinator = self._coordinator
        port = self.plan.coordinator[1] if coordinator is None else coordinator.port
        for index in self.plan.local:
            environment = make_environment(
                self.plan, index, port, self.environment, self.devices_per_worker
            )
            # A worker of another job may have started this one.
            environment.pop(step_record.VARIABLE, None)
            is_first = index == self.plan.local[0]
            if is_first:
                environment[step_record.VARIABLE] = str(self._record)
            output = WorkerOutput(
                self.plan.workers[index].name,
                self.show,
                log=self.log_folder and self.log_folder / f"worker-{index}.log",
                show_bar=self.show_bar if is_first else lambda _: None,
                appends=self.attempt > 0,
            )
            process = WorkerProcess(self.command, environment, output)
            self._processes.append(process)
            guard.watch(process.process_id)

    def _wait(self, end: float, poll: Callable[[], object]) -> bool:
        """Waits for all workers to end; returns whether the timeout expired first.

        Workers on other machines need the coordinator until they end, too.
        """
        running = set(range(len(self._processes)))
        while True:
            for position in sorted(running):
                if self._processes[position].exit_code is not None:
                    running.discard(position)
                    self._record_exit(position)
                    if not running:
                        self._reminder = time.monotonic() + _REMINDER_SECONDS
                        self._set_deadline(self._options.idle_timeout)
            for number in self.signals[self._num_forwarded :]:
                self._forward_signal(number, is_any_running=bool(running))
            self._update_coordinator()
            now = time.monotonic()
            if self._reminder is not None and now > self._reminder:
                self._remind(running)
            if now > end:
                return True
            if self._deadline is not None and now > self._deadline:
                self._failed += sorted(running)
                return False
            poll()
            if not running and not self._is_needed_elsewhere():
                return False
            time.sleep(_POLL_SECONDS)

    def _update_coordinator(self) -> None:
        coordinator = self._coordinator
        if coordinator is None:
            return
        ended = self.ended_elsewhere()
        for index in ended.keys() - self._reported:
            coordinator.report_exit(index, *ended[index])
        self._reported |= ended.keys()
        if coordinator.exit_code or coordinator.has_failure():
            self._notice_failure(self._options.failure_grace)

    def _is_needed_elsewhere(self) -> bool:
        """Returns whether workers on other machines use the coordinator here."""
        coordinator = self._coordinator
        if coordinator is None or len(self.plan.local) == len(self.plan.workers):
            return False
        return coordinator.exit_code is None

    def _record_exit(self, position: int) -> None:
        process = self._processes[position]
        has_failed = process.exit_code != 0
        coordinator = self._coordinator
        report = self.report_exit if coordinator is None else coordinator.report_exit
        report(self.plan.local[position], process.describe_exit(), has_failed)
        if has_failed:
            self._failed.append(position)
            is_planned = self.steps.is_preempted
            self._notice_failure(
                self.grace if is_planned else self._options.failure_grace
            )

    def _notice_failure(self, grace: float) -> None:
        self.failed_at = self.failed_at or time.monotonic()
        self._set_deadline(grace)

    def _forward_signal(self, number: int, is_any_running: bool) -> None:
        self._num_forwarded += 1
        # Schedulers repeat SIGTERM; only a user who insists sends SIGINT.
        is_repeated = self._num_forwarded > 1
        is_urgent = number == signal.SIGINT if is_repeated else not is_any_running
        for process in self._processes:
            # After a hang-up they save as well.
            process.signal(signal.SIGTERM if number == signal.SIGHUP else number)
        self._set_deadline(0.0 if is_urgent else self.grace)
        self._reminder = time.monotonic() + _REMINDER_SECONDS

    def _remind(self, running: set[int]) -> None:
        self._reminder = None
        names = ", ".join(self._processes[each].name for each in sorted(running))
        if names:
            text = (
                f"Waiting up to {self.grace:g} s for {names} to end. Ctrl-C (SIGINT) "
                "ends them now."
            )
        else:
            text = (
                "The workers here have ended. Waiting for those of other machines, "
                "which use the coordinator on this one."
            )
        self.show(f"mirrax launch: {text}")

    def _set_deadline(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._deadline = min(self._deadline or deadline, deadline)


@contextlib.contextmanager
def received_signals() -> Iterator[list[int]]:
    """Gives a list that gets each SIGINT, SIGTERM and SIGHUP inside the block.

    A supervisor forwards them to its workers; SIGINT after another one kills them.
    Once one has come, the program ends: later ones are ignored after the block, so that
    they cannot change its exit code. Under `nohup`, SIGHUP stays ignored.
    """
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        received.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, receive) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_IGN if received else handler)
