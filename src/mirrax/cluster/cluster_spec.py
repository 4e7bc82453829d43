"""`ClusterSpec`: the jobs of a cluster, their tasks and addresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Tasks: TypeAlias = Mapping[int, str] | Mapping[str, str] | Sequence[str]


@dataclasses.dataclass
class JobDef:
    """A job's name, and the addresses of its tasks by index.

    >>> JobDef("worker", {0: "a:1"}).tasks[0]
    'a:1'
    """

    name: str = ""
    tasks: dict[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class ClusterDef:
    """The jobs of a cluster as records, like TensorFlow's protocol buffer.

    >>> [job.name for job in ClusterSpec({"worker": ["a:1"]}).as_cluster_def().job]
    ['worker']
    """

    job: list[JobDef] = dataclasses.field(default_factory=list)


class ClusterSpec:
    """The jobs of a cluster, each with the addresses of its tasks.

    Args:
        cluster: A list of addresses for each job, or a mapping from task indices to
            addresses; or another `ClusterSpec`, or its `as_cluster_def()`.

    >>> spec = ClusterSpec({"worker": ["a:1", "b:1"], "ps": {3: "c:1"}})
    >>> spec.task_address("worker", 1)
    'b:1'
    >>> spec.as_dict()
    {'worker': ['a:1', 'b:1'], 'ps': {3: 'c:1'}}
    """

    def __init__(self, cluster: Mapping[str, Tasks] | ClusterSpec | ClusterDef) -> None:
        if isinstance(cluster, ClusterDef):
            cluster = {job.name: job.tasks for job in cluster.job}
        if isinstance(cluster, ClusterSpec):
            # The copy has its jobs in the order of their names, as TensorFlow's has.
            cluster = dict(sorted(cluster.as_dict().items()))
        if not isinstance(cluster, Mapping):
            raise TypeError(
                "`cluster` must be a dictionary from job names to lists of addresses. "
                f"Received: {cluster!r}. Use {{'worker': ['host:port', ...]}}."
            )
        self._jobs = {job: _read_tasks(job, cluster[job]) for job in cluster}

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs, in the order in which they were given."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """Returns how many tasks a job has."""
        return len(self._tasks(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Returns the indices of a job's tasks, in order."""
        return sorted(self._tasks(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Returns the address of one task."""
        tasks = self._tasks(job_name)
        if task_index not in tasks:
            raise ValueError(
                f"No task with index {task_index!r} in job {job_name!r}. "
                f"Its tasks are {sorted(tasks)}."
            )
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Returns the addresses of a job's tasks, None where an index is not used."""
        tasks = self._tasks(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Returns the addresses of each job: a list, a dictionary if there are gaps."""
        return {
            job: [tasks[index] for index in sorted(tasks)]
            if tasks and max(tasks) + 1 == len(tasks)
            else dict(tasks)
            for job, tasks in self._jobs.items()
        }

    def as_cluster_def(self) -> ClusterDef:
        """Returns the jobs, in the order of their names, as records."""
        jobs = sorted(self._jobs.items())
        return ClusterDef([JobDef(job, dict(sorted(t.items()))) for job, t in jobs])

    def _tasks(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            raise ValueError(
                f"No such job in cluster: {job_name!r}. Its jobs are {self.jobs}."
            )
        return self._jobs[job_name]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ClusterSpec):
            return self._jobs == other._jobs
        return NotImplemented

    def __hash__(self) -> int:
        jobs = sorted(self._jobs.items())
        return hash(tuple((job, *sorted(tasks.items())) for job, tasks in jobs))

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))!r})"


def _read_tasks(job: object, tasks: Tasks) -> dict[int, str]:
    if not isinstance(job, str):
        raise TypeError(f"A job's name must be a string. Received: {job!r}.")
    if isinstance(tasks, str) or not isinstance(tasks, Mapping | Sequence):
        raise TypeError(
            f"The tasks for job {job!r} must be a list or a dictionary from integers "
            f"to strings. Received: {tasks!r}. Use ['host:port', ...]."
        )
    items = tasks.items() if isinstance(tasks, Mapping) else enumerate(tasks)
    numbered = {int(index): address for index, address in items}
    for address in numbered.values():
        if not isinstance(address, str):
            raise TypeError(
                f"A task's address must be a string. Received: {address!r} in job "
                f"{job!r}. Use 'host:port'."
            )
    return numbered
