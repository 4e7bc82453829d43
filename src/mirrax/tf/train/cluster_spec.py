"""`tf.train.ClusterSpec` and its records."""

from __future__ import annotations

import dataclasses

from mirrax import cluster_resolver


class ClusterSpec(cluster_resolver.ClusterSpec):
    """`tf.train.ClusterSpec`."""

    def as_cluster_def(self) -> ClusterDef:
        """Returns the jobs and their tasks as records."""
        jobs = [
            JobDef(
                name, {i: self.task_address(name, i) for i in self.task_indices(name)}
            )
            for name in sorted(self.jobs)
        ]
        return ClusterDef(jobs)


@dataclasses.dataclass
class JobDef:
    """`tf.train.JobDef`: the addresses of a job's tasks."""

    name: str = ""
    tasks: dict[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class ClusterDef:
    """`tf.train.ClusterDef`: the jobs of a cluster."""

    job: list[JobDef] = dataclasses.field(default_factory=list)
