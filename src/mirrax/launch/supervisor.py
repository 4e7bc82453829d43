"""Starts the workers of a job on this machine, and stops them all at its end."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from mirrax.cluster.coordinator.process import Coordinator
from mirrax.cluster.job_options import read_options
from mirrax.cluster.membership import join_address
from mirrax.cluster.net.handshake import derive_key
from mirrax.launch.job_result import JobResult, make_result
from mirrax.launch.orphan_guard import OrphanGuard
from mirrax.launch.worker_plan import LaunchPlan, make_environment
from mirrax.launch.worker_process import WorkerProcess

_POLL_SECONDS = 0.02
# How long the coordinator waits for the launcher's report of a worker's exit.
_DEATH_SECONDS = 0.5
# When to say that workers are still running after a signal.
_REMINDER_SECONDS = 3.0
_REMINDER_AGAIN_SECONDS = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """Runs the workers of one machine.

    Args:
        plan: The workers to start.
        command: The command of each worker.
        devices_per_worker: CPU devices of each worker; None for the configured number.
        environment: The base environment variables.
        log_folder: The folder for log files, one for each worker.
        show: Called with each line of output, prefixed with its worker.
        grace: Seconds for workers to exit after SIGINT or SIGTERM.
        failure_grace: Seconds for the others to raise their errors after a failure.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        command: Sequence[str],
        *,
        devices_per_worker: int | None = None,
        environment: Mapping[str, str] | None = None,
        log_folder: pathlib.Path | None = None,
        show: Callable[[str], None] = print,
        grace: float = 30.0,
        failure_grace: float = 15.0,
    ) -> None:
        self._plan = plan
        self._command = command
        self._devices_per_worker = devices_per_worker
        self._environment = dict(os.environ if environment is None else environment)
        self._log_folder = log_folder
        self._show = show
        self._grace = grace
        self._failure_grace = failure_grace
        self._processes: list[WorkerProcess] = []
        self._failed: list[int] = []
        self._deadline: float | None = None
        self._reminder: float | None = None
        self._received: list[int] = []

    def run(self, timeout: float | None = None) -> JobResult:
        """Runs the job to its end; stops the workers on KeyboardInterrupt."""
        end = None if timeout is None else time.monotonic() + timeout
        guard = OrphanGuard()
        coordinator = failure = None
        try:
            coordinator = self._start_coordinator()
            self._start(guard, coordinator)
            timed_out = self._wait(coordinator, end)
            if coordinator is not None and not timed_out:
                self._wait_for_other_machines(coordinator, end)
        finally:
            for process in self._processes:
                process.kill()
            if coordinator is not None:
                failure = coordinator.stop()
            guard.close()
        for process in self._processes:
            process.finish()
        signal_number = self._received[0] if self._received else None
        return make_result(
            self._plan, self._processes, self._failed, signal_number, failure, timed_out
        )

    def forward_signals(self) -> None:
        """Forwards SIGINT, SIGTERM and SIGHUP from now on; a second signal kills."""

        def forward(number: int, _: object) -> None:
            self._received.append(number)

        for number in _SIGNALS:
            signal.signal(number, forward)

    def _start_coordinator(self) -> Coordinator | None:
        if not self._plan.hosts_coordinator:
            return None
        host, port = self._plan.coordinator
        options = read_options(self._environment)
        address = join_address(host, port)
        return Coordinator(
            host=options.bind or host,
            port=port,
            key=derive_key(address, self._plan.token, options.secret),
            workers=self._plan.workers,
            join_timeout=options.join_timeout,
            silence_timeout=options.silence_timeout,
            exit_report_seconds=_DEATH_SECONDS,
        )

    def _start(self, guard: OrphanGuard, coordinator: Coordinator | None) -> None:
        port = self._plan.coordinator[1] if coordinator is None else coordinator.port
        for index in self._plan.local:
            name = self._plan.workers[index].name
            process = WorkerProcess(
                name,
                self._command,
                make_environment(
                    self._plan,
                    index,
                    port,
                    self._environment,
                    self._devices_per_worker,
                ),
                show=lambda line, name=name: self._show(f"[{name}] {line}"),  # type: ignore[misc]
                log=self._log_folder and self._log_folder / f"worker-{index}.log",
            )
            self._processes.append(process)
            guard.watch(process.process_id)

    def _wait(self, coordinator: Coordinator | None, end: float | None) -> bool:
        """Waits for all workers to end; returns whether the timeout expired first."""
        running = set(range(len(self._processes)))
        num_forwarded = 0
        while running:
            for position in sorted(running):
                if self._processes[position].exit_code is not None:
                    running.discard(position)
                    self._record_exit(position, coordinator)
            for number in self._received[num_forwarded:]:
                self._forward_signal(number, is_first=num_forwarded == 0)
                num_forwarded += 1
            now = time.monotonic()
            if self._reminder is not None and now > self._reminder:
                self._remind(running)
            if end is not None and now > end:
                return True
            if self._deadline is not None and now > self._deadline:
                self._failed += sorted(running)
                return False
            time.sleep(_POLL_SECONDS)
        return False

    def _wait_for_other_machines(
        self, coordinator: Coordinator, end: float | None
    ) -> None:
        """Waits until workers on other machines no longer need the coordinator."""
        if len(self._plan.local) == len(self._plan.workers):
            return
        coordinator.finish()
        reminder = time.monotonic() + _REMINDER_SECONDS
        limits = [limit for limit in (end, self._deadline) if limit is not None]
        while coordinator.is_running() and not self._received:
            now = time.monotonic()
            if any(now > limit for limit in limits):
                return
            if now > reminder:
                reminder = now + _REMINDER_AGAIN_SECONDS
                self._show(
                    "mirrax launch: The workers here have ended. Waiting for those of "
                    "other machines, which use the coordinator on this one."
                )
            time.sleep(_POLL_SECONDS)

    def _record_exit(self, position: int, coordinator: Coordinator | None) -> None:
        process = self._processes[position]
        if coordinator is not None:
            index = self._plan.local[position]
            coordinator.report_exit(index, process.describe_exit())
        if process.exit_code != 0:
            self._failed.append(position)
            self._set_deadline(self._failure_grace)

    def _forward_signal(self, number: int, is_first: bool) -> None:
        for process in self._processes:
            process.signal(number)
        self._set_deadline(self._grace if is_first else 0.0)
        self._reminder = time.monotonic() + _REMINDER_SECONDS

    def _remind(self, running: set[int]) -> None:
        self._reminder = None
        names = ", ".join(
            self._processes[position].name for position in sorted(running)
        )
        self._show(
            f"mirrax launch: Waiting up to {self._grace:g} s for {names} to end. "
            "A second signal ends them now."
        )

    def _set_deadline(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._deadline = min(self._deadline or deadline, deadline)


def show_line(line: str) -> None:
    """Prints one line atomically."""
    with _print_lock:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


_print_lock = threading.Lock()
