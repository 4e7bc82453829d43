"""The launcher of another machine: it runs the attempts that the leader starts."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence

from mirrax.cluster.job_options import EXIT_CODE
from mirrax.cluster.net.messages import Message, ProtocolError
from mirrax.cluster.worker.coordinator_client import connect
from mirrax.launch.job_result import JobResult
from mirrax.launch.machines import Machines
from mirrax.launch.worker_plan import LaunchPlan

_POLL_SECONDS = 0.05
# When a machine says that it has not been told to start yet.
_REPORT_SECONDS = 3.0
_LEADER = "launcher of the first machine"
_LOGGER = logging.getLogger(__name__)


class Follower:
    """Another machine's side: it runs the attempts that the leader starts."""

    def __init__(
        self, machines: Machines, host_index: int, show: Callable[[str], None]
    ) -> None:
        self._machines = machines
        self._host_index = host_index
        self._show = show
        body = machines.describe(host_index)
        timeout = machines.options.join_timeout
        self._client = connect(machines.leader, machines.key, body, timeout, _LEADER)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def start_attempt(self, signals: Sequence[int]) -> LaunchPlan | JobResult:
        """Waits for the leader; returns the plan of this machine, or the job's result.

        A signal ends the wait.
        """
        report_at = time.monotonic() + _REPORT_SECONDS
        while not signals:
            try:
                message = self._messages.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if time.monotonic() > report_at:
                    report_at = math.inf
                    self._show(
                        "mirrax launch: This machine waits for the next attempt."
                    )
                continue
            if message.kind == "over":
                return JobResult(int(message["exit_code"]))
            return self._machines.plan(
                message["members"], self._host_index, message["token"]
            )
        return JobResult(EXIT_CODE)

    def ended_workers(self) -> dict[int, tuple[str, bool]]:
        """Returns nothing: the leader has the coordinator."""
        return {}

    def report_exit(self, worker_index: int, how: str, has_failed: bool) -> None:
        fields = {"worker": worker_index, "how": how, "has_failed": has_failed}
        with contextlib.suppress(OSError):
            self._client.send(Message("exit", fields))

    def collect(self, result: JobResult, signals: Sequence[int]) -> JobResult | None:
        """Tells the leader how the attempt ended here.

        Returns None if the leader decides what follows. After a signal this launcher
        takes part in no other attempt.
        """
        cause = result.cause
        if cause is not None and not cause.is_consequence:
            self._show(f"mirrax launch: {cause}.")
        fields = {
            "cause": None if cause is None else dataclasses.asdict(cause),
            "exit_code": result.exit_code,
            "report": result.report,
            "is_leaving": bool(signals),
        }
        with contextlib.suppress(OSError):
            self._client.send(Message("ended", fields))
        return result if signals else None

    def finish(self, exit_code: int) -> None:
        """Leaves the job; the leader needs no exit code."""
        self._client.close()

    def _read(self) -> None:
        try:
            for message in self._client.receive():
                self._messages.put(message)
        except ProtocolError:
            _LOGGER.exception("The %s sent an invalid message.", _LEADER)
        # The cause is on another machine.
        self._messages.put(Message("over", {"exit_code": EXIT_CODE}))
