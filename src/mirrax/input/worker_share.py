"""A worker's share of a dataset: which replicas are its own."""

from __future__ import annotations

import dataclasses

from mirrax.devices.peers import Peers, exchange_json
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch


@dataclasses.dataclass(frozen=True)
class Share:
    """The replicas of one worker among those of all workers."""

    num_workers: int = 1
    worker_index: int = 0
    replicas_per_worker: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.worker_index < self.num_workers:
            raise ValueError(
                "`worker_index` must be one of the workers, from 0 on. Received: "
                f"worker_index={self.worker_index}, num_workers={self.num_workers}."
            )

    @property
    def num_replicas(self) -> int:
        """The number of replicas of all workers."""
        return self.num_workers * self.replicas_per_worker

    @property
    def replicas(self) -> range:
        """The indices of this worker's replicas."""
        start = self.worker_index * self.replicas_per_worker
        return range(start, start + self.replicas_per_worker)


def share_of(topology: Topology) -> Share:
    """Returns the share of this process."""
    count = len(topology.local_devices)
    return Share(topology.num_workers, topology.worker_index, count)


def require_same(peers: Peers, topic: str, text: str) -> None:
    """Raises unless `text` is the same on all workers."""
    answers = exchange_json(peers, topic, text)
    if any(answer != answers[0] for answer in answers):
        shown = "; ".join(f"worker {i}: {text}" for i, text in enumerate(answers))
        raise ProgramMismatch(
            f"All workers must have the same {topic}. Received: {shown}. Give each "
            "worker the same data, or use `distribute_datasets_from_function`."
        )
