"""Datasets whose batches are divided among the replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from mirrax.context import stack
from mirrax.context.guards import MustDrive
from mirrax.data.dataset import Dataset
from mirrax.devices.topology import Topology
from mirrax.input.split import split_batch
from mirrax.trees import Tree
from mirrax.values.driving import Driving
from mirrax.values.layouts import Parts, to_device
from mirrax.values.per_replica import PerReplica


class DistributedDataset(Driving):
    """A dataset of global batches, each divided among the replicas.

    Iterating gives a `PerReplica` for each array; with one replica, the array itself.
    """

    def __init__(self, dataset: Dataset, topology: Topology) -> None:
        self._dataset = dataset
        self._topology = topology

    def __iter__(self) -> Iterator[Tree]:
        if stack.overlay() is not None:
            raise MustDrive
        return (jax.tree.map(self._distribute, batch) for batch in self._dataset)

    def _distribute(self, batch: np.ndarray[Any, Any]) -> Any:
        devices = self._topology.local_devices
        if self._topology.is_single:
            return to_device(batch, devices[0])
        pieces = split_batch(len(batch), self._topology.num_replicas)
        parts = tuple(
            to_device(batch[piece], device)
            for piece, device in zip(pieces, devices, strict=True)
        )
        return PerReplica(Parts(parts, self._topology))
