"""The machines of a job, whose launchers agree on each attempt to run it.

The first machine's launcher leads (`leader.py`): it listens on the port after the
coordinator's, says which machines take part in an attempt and with which token, and
receives the results from the others (`follower.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from mirrax.cluster.job_options import JobOptions
from mirrax.cluster.membership import join_address, split_address
from mirrax.cluster.net import handshake
from mirrax.launch.job_result import JobResult
from mirrax.launch.worker_plan import LaunchPlan, plan_hosts, plan_local


@dataclasses.dataclass(frozen=True)
class Machines:
    """The machines of a job.

    Args:
        hosts: The address of each, as in `--hosts`.
    """

    hosts: tuple[str, ...]
    num_workers: int
    min_hosts: int
    max_hosts: int
    options: JobOptions

    @property
    def leader(self) -> str:
        host, port = split_address(self.hosts[0])
        return join_address(host, port + 1)

    @property
    def key(self) -> bytes:
        """The key that launchers must prove to know."""
        return handshake.derive_key(self.leader, "", self.options.secret)

    def describe(self, host_index: int) -> dict[str, Any]:
        """Returns what a launcher says of itself when it connects to the leader."""
        hosts = list(self.hosts)
        return {"host": host_index, "hosts": hosts, "workers": self.num_workers}

    def find_difference(self, body: dict[str, Any]) -> str:
        """Returns why a launcher with this description has no part here, or ""."""
        if body == self.describe(body["host"]):
            return ""
        return (
            "All launchers of a job must have the same --hosts and -n. Received: "
            f"{body['hosts']} with {body['workers']} workers, and {list(self.hosts)} "
            f"with {self.num_workers} on the first machine."
        )

    def plan(self, members: Sequence[int], host_index: int, token: str) -> LaunchPlan:
        """Returns the workers of an attempt with some of the machines."""
        hosts = [self.hosts[index] for index in members]
        position = list(members).index(host_index)
        return plan_hosts(hosts, position, self.num_workers, token)


class Launchers(Protocol):
    """Agrees with the launchers of other machines on each attempt to run the job."""

    def start_attempt(self, signals: Sequence[int]) -> LaunchPlan | JobResult:
        """Returns the plan of this machine, or the job's result if it is over.

        Args:
            signals: The signals received so far; one ends the wait for others.
        """

    def ended_workers(self) -> dict[int, tuple[str, bool]]:
        """Returns how workers of other machines have ended, and whether they failed.

        Only if the coordinator is here.
        """

    def report_exit(self, worker_index: int, how: str, has_failed: bool) -> None:
        """Reports how a worker of this machine has ended, if the leader is another."""

    def collect(self, result: JobResult, signals: Sequence[int]) -> JobResult | None:
        """Returns the result of the attempt everywhere; None if the leader decides."""

    def finish(self, exit_code: int) -> None:
        """Ends the work of this machine's launcher in the job."""


class Alone:
    """The null object for a job on one machine, whose launcher asks no other."""

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers

    def start_attempt(self, signals: Sequence[int]) -> LaunchPlan:
        return plan_local(self._num_workers)

    def ended_workers(self) -> dict[int, tuple[str, bool]]:
        """Returns nothing: there are no other machines."""
        return {}

    def report_exit(self, worker_index: int, how: str, has_failed: bool) -> None:
        """Does nothing."""

    def collect(self, result: JobResult, signals: Sequence[int]) -> JobResult:
        return result

    def finish(self, exit_code: int) -> None:
        """Does nothing."""
