"""The launcher of another machine: it runs the attempts that the leader starts."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from mirrax.cluster.net.messages import Message, ProtocolError
from mirrax.cluster.worker.coordinator_client import connect
from mirrax.launch.job_result import JobResult, stop_without_workers
from mirrax.launch.machines import Machines
from mirrax.launch.worker_plan import LaunchPlan

_POLL_SECONDS = 0.05
# When a machine says that it has not been told to start yet.
_REPORT_SECONDS = 3.0
_LEADER = "launcher of the first machine"
_LOGGER = logging.getLogger(__name__)


class Follower:
    """Another machine's side: it runs the attempts that the leader starts."""

    def __init__(self, machines: Machines, host_index: int) -> None:
        self._machines = machines
        self._host_index = host_index
        body = machines.describe(host_index)
        timeout = machines.options.join_timeout
        self._client = connect(machines.leader, machines.key, body, timeout, _LEADER)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def next_attempt(
        self, signals: Sequence[int], show: Callable[[str], None] = print
    ) -> LaunchPlan | int:
        """Returns the plan of the next attempt, or the exit code of the job."""
        report_at = time.monotonic() + _REPORT_SECONDS
        while not signals:
            try:
                message = self._messages.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if time.monotonic() > report_at:
                    report_at = float("inf")
                    show("mirrax launch: This machine waits for the next attempt.")
                continue
            if message.kind == "over":
                self.close()
                return int(message["exit_code"])
            return self._machines.plan(
                message["members"], self._host_index, message["token"]
            )
        self.close()
        code = self._machines.options.requeue_code
        return stop_without_workers(signals[0], code).exit_code

    def close(self) -> None:
        self._client.close()

    def report_exit(self, worker_index: int, how: str, has_failed: bool) -> None:
        fields = {"worker": worker_index, "how": how, "has_failed": has_failed}
        with contextlib.suppress(OSError):
            self._client.send(Message("exit", fields))

    def report(self, result: JobResult, is_leaving: bool) -> None:
        """Tells the leader how the attempt ended here.

        Args:
            is_leaving: Whether this launcher takes part in no other attempt.
        """
        cause = None if result.cause is None else dataclasses.asdict(result.cause)
        with contextlib.suppress(OSError):
            fields = {
                "cause": cause,
                "exit_code": result.exit_code,
                "report": result.report,
                "is_leaving": is_leaving,
            }
            self._client.send(Message("ended", fields))

    def _read(self) -> None:
        try:
            for message in self._client.receive():
                self._messages.put(message)
        except ProtocolError:
            _LOGGER.exception("The %s sent an invalid message.", _LEADER)
        # 75: the cause is on another machine.
        self._messages.put(Message("over", {"exit_code": 75}))
