"""Starts the workers of a job, watches them, and leaves nothing behind."""

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
from mirrax.launch.orphan_guard import Guardian
from mirrax.launch.outcome import Outcome, conclude
from mirrax.launch.worker_plan import Plan, make_environment
from mirrax.launch.worker_process import Child

_POLL_SECONDS = 0.02
# How long the launcher's word on how a worker ended may take.
_DEATH_SECONDS = 0.5
# Workers that end at once after a signal need no comment.
_REMINDER_SECONDS = 3.0
_REMINDER_AGAIN_SECONDS = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """The workers of one machine, from their start to their end.

    Args:
        plan: Who is to be started.
        command: What each of them runs.
        devices_per_worker: How many CPU devices each has; None for what is set.
        environment: The environment variables to start from.
        log_folder: The folder where each worker's output is kept as a file.
        show: Takes each line of output, marked with its worker.
        grace: How many seconds the workers have after SIGINT or SIGTERM.
        patience: How many seconds the others have, to raise their own errors, after
            the first has failed.
    """

    def __init__(
        self,
        plan: Plan,
        command: Sequence[str],
        *,
        devices_per_worker: int | None = None,
        environment: Mapping[str, str] | None = None,
        log_folder: pathlib.Path | None = None,
        show: Callable[[str], None] = print,
        grace: float = 30.0,
        patience: float = 15.0,
    ) -> None:
        self._plan = plan
        self._command = command
        self._devices_per_worker = devices_per_worker
        self._environment = dict(os.environ if environment is None else environment)
        self._log_folder = log_folder
        self._show = show
        self._grace = grace
        self._patience = patience
        self._children: list[Child] = []
        self._failed: list[int] = []
        self._deadline: float | None = None
        self._reminder: float | None = None
        self._received: list[int] = []

    def run(self, timeout: float | None = None) -> Outcome:
        """Runs the job to its end and returns how it ended.

        Raises KeyboardInterrupt like any call, after it has ended the workers.
        """
        end = None if timeout is None else time.monotonic() + timeout
        guardian = Guardian()
        coordinator = failure = None
        try:
            coordinator = self._start_coordinator()
            self._start(guardian, coordinator)
            timed_out = self._wait(coordinator, end)
            if coordinator is not None and not timed_out:
                self._wait_for_other_machines(coordinator, end)
        finally:
            for child in self._children:
                child.kill()
            if coordinator is not None:
                failure = coordinator.stop()
            guardian.close()
        for child in self._children:
            child.finish()
        signal_number = self._received[0] if self._received else None
        return conclude(
            self._plan, self._children, self._failed, signal_number, failure, timed_out
        )

    def forward_signals(self) -> None:
        """Passes on SIGINT, SIGTERM and SIGHUP from now on; a second one kills."""

        def forward(number: int, _: object) -> None:
            self._received.append(number)

        for number in _SIGNALS:
            signal.signal(number, forward)

    def processes(self) -> list[int]:
        """Returns the process ids of the workers, in their order."""
        return [child.process_id for child in self._children]

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
            death_wait=_DEATH_SECONDS,
        )

    def _start(self, guardian: Guardian, coordinator: Coordinator | None) -> None:
        port = self._plan.coordinator[1] if coordinator is None else coordinator.port
        for index in self._plan.local:
            name = self._plan.workers[index].name
            child = Child(
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
            self._children.append(child)
            guardian.watch(child.process_id)

    def _wait(self, coordinator: Coordinator | None, end: float | None) -> bool:
        """Waits for the end of all workers; returns whether the time was over first."""
        running = set(range(len(self._children)))
        num_forwarded = 0
        while running:
            for position in sorted(running):
                if self._children[position].exit_code is not None:
                    running.discard(position)
                    self._note_end(position, coordinator)
            for number in self._received[num_forwarded:]:
                self._pass_on(number, is_first=num_forwarded == 0)
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
        """Waits until the workers of other machines need the coordinator no more."""
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
                    "other machines, who are connected through this one."
                )
            time.sleep(_POLL_SECONDS)

    def _note_end(self, position: int, coordinator: Coordinator | None) -> None:
        child = self._children[position]
        if coordinator is not None:
            index = self._plan.local[position]
            coordinator.explain_death(index, child.describe_end())
        if child.exit_code != 0:
            self._failed.append(position)
            self._set_deadline(self._patience)

    def _pass_on(self, number: int, is_first: bool) -> None:
        for child in self._children:
            child.signal(number)
        self._set_deadline(self._grace if is_first else 0.0)
        self._reminder = time.monotonic() + _REMINDER_SECONDS

    def _remind(self, running: set[int]) -> None:
        self._reminder = None
        names = ", ".join(self._children[position].name for position in sorted(running))
        self._show(
            f"mirrax launch: Waiting up to {self._grace:g} s for {names} to end. "
            "A second signal ends them now."
        )

    def _set_deadline(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._deadline = min(self._deadline or deadline, deadline)


def show_line(line: str) -> None:
    """Prints one line at once, whole, whatever other threads print."""
    with _print_lock:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


_print_lock = threading.Lock()
