"""`Topology`: the device of each replica, the mesh and its shardings."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from mirrax.devices import cpu_threads
from mirrax.devices.device_names import LOCAL_TASK
from mirrax.devices.logical_devices import (
    LogicalDevice,
    default_devices,
    device_kind,
    name_of,
    resolve,
)
from mirrax.devices.peers import NoPeers, Peers
from mirrax.errors import DuplicateDevice, WrongType

AXIS = "replica"
"""The one axis of the mesh."""


@dataclasses.dataclass(frozen=True)
class Topology:
    """The device of each replica: replica `i` runs on `devices[i]`.

    Args:
        devices: One for each replica, of all workers.
        job: The other workers; None if all replicas run in this process.

    >>> Topology(tuple(jax.devices("cpu")[:1])).num_replicas
    1
    """

    devices: tuple[jax.Device, ...]
    process_index: int = dataclasses.field(default_factory=jax.process_index)
    job: Peers | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.devices:
            raise ValueError(
                "A strategy needs at least one device. "
                "Received: devices=(). Name a device such as 'CPU:0'."
            )
        if len(set(self.devices)) < len(self.devices):
            raise DuplicateDevice(
                "The devices of a strategy must be distinct. "
                f"Received: {self.devices}. Name each device once."
            )
        kinds = {device_kind(device) for device in self.devices}
        if len(kinds) > 1:
            raise ValueError(
                "The devices of a strategy must be of one kind. "
                f"Received: {self.devices}. Use only one of {', '.join(sorted(kinds))}."
            )

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def num_replicas(self) -> int:
        """The number of replicas, in all processes."""
        return len(self.devices)

    @functools.cached_property
    def is_single(self) -> bool:
        return self.num_replicas == 1

    @functools.cached_property
    def is_local(self) -> bool:
        """Whether all replicas run in this process."""
        return self.job is None

    @functools.cached_property
    def peers(self) -> Peers:
        """The workers that run replicas."""
        return NoPeers() if self.job is None else self.job

    @functools.cached_property
    def num_workers(self) -> int:
        """The number of processes that run replicas."""
        return self.peers.num_workers

    @functools.cached_property
    def worker_index(self) -> int:
        """The index of this one."""
        return self.peers.worker_index

    @functools.cached_property
    def local_replicas(self) -> tuple[int, ...]:
        """Indices of the replicas that this process runs."""
        return tuple(
            index
            for index, device in enumerate(self.devices)
            if device.process_index == self.process_index
        )

    @functools.cached_property
    def local_devices(self) -> tuple[jax.Device, ...]:
        """The devices of this process, in the order of their replicas."""
        return tuple(self.devices[index] for index in self.local_replicas)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The full TensorFlow name of each replica's device."""
        return tuple(name_of(device, self._task_of(device)) for device in self.devices)

    @functools.cached_property
    def mesh(self) -> Mesh:
        """All devices along the one axis `replica`."""
        return Mesh(np.asarray(self.devices), (AXIS,), axis_types=(AxisType.Auto,))

    @functools.cached_property
    def replicated(self) -> NamedSharding:
        """The sharding of an array that is replicated on all devices."""
        return NamedSharding(self.mesh, PartitionSpec())

    @functools.cached_property
    def split(self) -> NamedSharding:
        """The sharding of an array that is split along its first axis."""
        return NamedSharding(self.mesh, PartitionSpec(AXIS))

    # A topology is part of many cache keys, and hashing all devices is slow.
    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.devices, self.process_index))

    def _task_of(self, device: jax.Device) -> str:
        if self.job is None:
            return LOCAL_TASK
        worker = self.job.workers[device.process_index]
        return f"/job:{worker.type}/replica:0/task:{worker.index}"


def local_topology(
    devices: Sequence[str | LogicalDevice | jax.Device] | None = None,
) -> Topology:
    """Returns the topology over devices of this process.

    Args:
        devices: Names, logical or JAX devices; by default all of the best kind.

    >>> local_topology(["CPU:0"]).names
    ('/job:localhost/replica:0/task:0/device:CPU:0',)
    """
    chosen = default_devices() if devices in (None, (), []) else _find_devices(devices)
    _check_local(chosen)
    topology = Topology(chosen)
    if device_kind(chosen[0]) == "CPU":
        cpu_threads.check(topology.num_replicas)
    return topology


def job_topology(job: Peers, devices: Sequence[jax.Device]) -> Topology:
    """Returns the topology over devices of all workers of a job.

    Args:
        devices: Those of this process; all workers must have the same.
    """
    indices = [jax.local_devices(backend=devices[0].platform).index(d) for d in devices]
    answers = job.exchange(
        "devices", json.dumps([device_kind(devices[0]), indices]).encode()
    )
    if any(answer != answers[0] for answer in answers):
        shown = "; ".join(
            f"{worker.name}: {kind} {own}"
            for worker, (kind, own) in zip(job.workers, map(json.loads, answers))
        )
        raise ValueError(
            "Each worker of a strategy must have the same devices. Received: "
            f"{shown}. Give all workers the same number of devices."
        )
    chosen = tuple(
        jax.local_devices(worker, backend=devices[0].platform)[index]
        for worker in range(job.num_workers)
        for index in indices
    )
    if device_kind(chosen[0]) == "CPU":
        cpu_threads.check(len(indices))
    return Topology(chosen, job=job)


def _find_devices(devices: Any) -> tuple[jax.Device, ...]:
    if not isinstance(devices, Sequence) or isinstance(devices, str):
        raise WrongType(
            "`devices` is a list or a tuple of names or JAX devices. Received: "
            f"{devices!r}. Write a list, such as ['CPU:0', 'CPU:1']."
        )
    # All names at once: together they say how many CPU devices to create.
    found = iter(resolve([d for d in devices if not isinstance(d, jax.Device)]))
    return tuple(d if isinstance(d, jax.Device) else next(found) for d in devices)


def _check_local(devices: Sequence[jax.Device]) -> None:
    process = jax.process_index()
    if any(device.process_index != process for device in devices):
        raise ValueError(
            "These devices must all belong to this process, "
            f"which is process {process}. Received: {devices}. "
            "Use jax.local_devices(), or "
            "MultiWorkerMirroredStrategy for the devices of several processes."
        )
