"""`MultiWorkerMirroredStrategy`: the devices of several workers."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence

import jax

from mirrax._jax.distributed import backend_is_up
from mirrax.cluster.job_options import JobOptions, read_options
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.cluster.resolvers.tf_config import TFConfigClusterResolver
from mirrax.cluster.worker import join
from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.devices import device_kind
from mirrax.devices.logical_devices import ensure_cpu_devices, local_devices, resolve
from mirrax.devices.topology import Topology, job_topology, local_topology
from mirrax.options import CollectiveCommunication as Choice
from mirrax.options import CommunicationOptions
from mirrax.strategy.strategy import Strategy
from mirrax.strategy.variable_creators import create_mirrored

# For each device type, the transport that JAX uses and the options that name it.
_TRANSPORTS = {
    "CPU": ("Gloo", {Choice.AUTO, Choice.RING}),
    "GPU": ("NCCL", {Choice.AUTO, Choice.NCCL}),
    "TPU": ("the TPU's own network", {Choice.AUTO}),
}


def check_choice(choice: Choice, device_kind: str) -> None:
    """Warns if JAX does not have the chosen transport on these devices.

    Not an error, as in TensorFlow: a program for GPUs can be tried on a CPU.
    """
    if device_kind not in _TRANSPORTS:
        return
    used, accepted = _TRANSPORTS[device_kind]
    if choice not in accepted:
        warnings.warn(
            f"{device_kind} devices communicate over {used}. Received: "
            f"CommunicationOptions(implementation={choice.name}), which has no effect "
            "here. Leave it out, or use AUTO.",
            stacklevel=3,
        )


# Up to this size, latency dominates the time of a message between workers.
_SMALL_BYTES = 64 * 1024

DEVICES_PER_WORKER = "MIRRAX_DEVICES_PER_WORKER"
"""The environment variable with the number of CPU devices of each worker."""


class MultiWorkerMirroredStrategy(Strategy):
    """Synchronous data parallelism over the devices of several workers.

    Every worker runs the same script. They find each other through TF_CONFIG in the
    environment, which `mirrax launch` sets, or through a resolver. Without either there
    is one worker.

    Create it before anything else that uses JAX.

    Args:
        cluster_resolver: The members of the cluster; read from TF_CONFIG by default.
        communication_options: Hints for collectives, and their timeout.
        devices: Names of this worker's devices; all its GPUs or TPUs by default, or
            else MIRRAX_DEVICES_PER_WORKER CPU devices (1 if unset).

    >>> MultiWorkerMirroredStrategy().num_replicas_in_sync
    1
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        communication_options: CommunicationOptions | None = None,
        *,
        devices: Sequence[str] | None = None,
    ) -> None:
        options = communication_options or CommunicationOptions()
        resolver = cluster_resolver or TFConfigClusterResolver()
        _reserve_cpu_devices(devices)
        job = join.join_job(resolver, options=_job_options(options))
        local = _own_devices(devices)
        topology: Topology = (
            local_topology(local) if job is None else job_topology(job, local)
        )
        check_choice(options.implementation, device_kind(local[0]))
        ops = XlaAllReduce(_SMALL_BYTES)
        super().__init__(topology, ops, create_mirrored, resolver, options)


def _job_options(options: CommunicationOptions) -> JobOptions:
    settings = read_options()
    if options.timeout_seconds is None:
        return settings
    return dataclasses.replace(settings, stuck_timeout=options.timeout_seconds)


def _reserve_cpu_devices(devices: Sequence[str] | None) -> None:
    """Makes JAX start with this worker's number of CPU devices."""
    if not backend_is_up():
        wanted = _num_cpu_devices() if devices is None else len(devices)
        ensure_cpu_devices(wanted)


def _num_cpu_devices() -> int:
    text = os.environ.get(DEVICES_PER_WORKER, "1")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(
            f"{DEVICES_PER_WORKER} is the number of CPU devices of each worker. "
            f"Received: {DEVICES_PER_WORKER}={text!r}. Set it to 1 or more."
        )
    return int(text)


def _own_devices(devices: Sequence[str] | None) -> tuple[jax.Device, ...]:
    if devices is not None:
        return resolve(list(devices))
    accelerators = local_devices("TPU") or local_devices("GPU")
    if accelerators:
        return accelerators
    count = _num_cpu_devices()
    ensure_cpu_devices(count)
    return local_devices("CPU")[:count]
