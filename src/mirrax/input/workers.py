"""Who shares a dataset: the workers, their replicas, and what they tell each other."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

from typing_extensions import override

from mirrax.devices.topology import Topology


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
    workers = sorted({device.process_index for device in topology.devices})
    count = len(topology.local_devices)
    if len(workers) * count != topology.num_replicas:
        raise ValueError(
            "Every worker must have as many devices as the others, to share a dataset. "
            f"Received: {count} device(s) here of {topology.num_replicas} on "
            f"{len(workers)} workers. Use the same number everywhere."
        )
    share = Share(len(workers), workers.index(topology.process_index), count)
    if topology.local_replicas != tuple(share.replicas):
        raise ValueError(
            "The devices of a strategy must be in the order of the workers, to share a "
            f"dataset. Received: replicas {topology.local_replicas} on worker "
            f"{share.worker_index} of {share.num_workers}."
        )
    return share


class Workers(abc.ABC):
    """What workers tell each other about their data, always all in the same order."""

    @abc.abstractmethod
    def have_any(self, has_data: bool) -> bool:
        """Returns whether any worker has data for the next step."""

    @abc.abstractmethod
    def take_from_first(self, numbers: Sequence[int]) -> list[int]:
        """Returns the numbers that the first worker gave."""


class Alone(Workers):
    """There is only one worker."""

    @override
    def have_any(self, has_data: bool) -> bool:
        return has_data

    @override
    def take_from_first(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)
