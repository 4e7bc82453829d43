"""`MultiWorkerMirroredStrategy`: the devices of several workers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import jax

from mirrax._jax.distributed import backend_is_up
from mirrax.cluster.job_options import JobOptions, read_options
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.cluster.resolvers.detection import find_cluster_resolver
from mirrax.cluster.worker import join
from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.worker_all_reduce import WorkerAllReduce
from mirrax.devices import device_kind
from mirrax.devices.logical_devices import ensure_cpu_devices, local_devices, resolve
from mirrax.devices.topology import Topology, job_topology, local_topology
from mirrax.errors import ConfigurationError, WrongType
from mirrax.options import CommunicationOptions
from mirrax.strategy.scope import create_mirrored
from mirrax.strategy.strategy import Strategy
from mirrax.user_frames import shorten_traceback

DEVICES_PER_WORKER = "MIRRAX_DEVICES_PER_WORKER"
"""The environment variable with the number of CPU devices of each worker."""


class MultiWorkerMirroredStrategy(Strategy):
    """Synchronous data parallelism over the devices of several workers.

    Every worker runs the same script. They find each other in the environment, which
    `mirrax launch`, Slurm, MPI or Kubernetes sets, or through a resolver. Without
    either there is one worker.

    Create it before anything else that uses JAX.

    Args:
        cluster_resolver: The members of the cluster; by default
            `mirrax.cluster_resolver.find_cluster_resolver()`.
        communication_options: Hints for collectives, and their timeout.
        devices: Names of this worker's devices; all its GPUs or TPUs by default, or
            else MIRRAX_DEVICES_PER_WORKER CPU devices (1 if unset).
        shard_state: Whether each device stores only its part of large variables, to
            save memory; a number of bytes says how large. With "updates", variables
            stay whole, and devices divide their updates. See docs/sharded_state.md.

    >>> MultiWorkerMirroredStrategy().num_replicas_in_sync
    1
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        communication_options: CommunicationOptions | None = None,
        *,
        devices: Sequence[str] | None = None,
        shard_state: bool | int | str = False,
    ) -> None:
        options = communication_options or CommunicationOptions()
        try:
            _require_type("cluster_resolver", cluster_resolver, ClusterResolver)
            _require_type("communication_options", options, CommunicationOptions)
            resolver = cluster_resolver or find_cluster_resolver()
            _reserve_cpu_devices(devices)
            job = join.join_job(resolver, options=_job_options(options))
            local = _own_devices(devices)
            topology: Topology = (
                local_topology(local) if job is None else job_topology(job, local)
            )
        except Exception as error:
            shorten_traceback(error)
            raise
        is_cpu = device_kind(local[0]) == "CPU"
        ops = WorkerAllReduce() if job and is_cpu else XlaAllReduce()
        super().__init__(topology, ops, create_mirrored, resolver, options, shard_state)


def _require_type(name: str, value: object, wanted: type) -> None:
    if not isinstance(value, wanted | None):
        raise WrongType(
            f"`{name}` of `MultiWorkerMirroredStrategy` is a `{wanted.__name__}`. "
            f"Received: {value!r}. Write {name}={wanted.__name__}(...), or leave it "
            "out."
        )


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
        raise ConfigurationError(
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
