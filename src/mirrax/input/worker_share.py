"""Who shares a dataset: the workers, their replicas, and what they must agree on."""

from __future__ import annotations

import dataclasses

from mirrax.devices.peers import Peers, exchange_json
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch


@dataclasses.dataclass(frozen=True)
class Share:
    """Which replicas of all are those of this worker.

    Args:
        num_workers: How many workers there are.
        worker_index: Which of them this is.
        replicas_per_worker: How many replicas each has.
    """

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
        """How many replicas there are, of all workers together."""
        return self.num_workers * self.replicas_per_worker

    @property
    def replicas(self) -> range:
        """The numbers of the replicas of this worker, among those of all."""
        start = self.worker_index * self.replicas_per_worker
        return range(start, start + self.replicas_per_worker)


def share_of(topology: Topology) -> Share:
    """Returns the share of this process in a dataset for the devices of a topology."""
    count = len(topology.local_devices)
    return Share(topology.num_workers, topology.worker_index, count)


def require_same(peers: Peers, topic: str, text: str) -> None:
    """Raises unless all workers say the same."""
    answers = exchange_json(peers, topic, text)
    if any(answer != answers[0] for answer in answers):
        shown = "; ".join(f"worker {i}: {text}" for i, text in enumerate(answers))
        raise ProgramMismatch(
            f"All workers must have the same {topic}. Received: {shown}. Give each "
            "worker the same data, or use `distribute_datasets_from_function`."
        )
