"""`MirroredStrategy`: several devices of one machine."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax

from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.devices.logical_devices import LogicalDevice
from mirrax.devices.topology import local_topology
from mirrax.lazy_modules import LazyModule
from mirrax.strategy.scope import create_mirrored
from mirrax.strategy.strategy import Strategy

if TYPE_CHECKING:
    from mirrax.cluster.resolvers import detection
    from mirrax.cluster.worker import join
else:
    detection = LazyModule("mirrax.cluster.resolvers.detection")
    join = LazyModule("mirrax.cluster.worker.join")

_LOGGER = logging.getLogger(__name__)
# One of these is set where several processes are started. Without them, the modules
# above need not be imported.
LAUNCHER_VARIABLES = frozenset(
    {
        "TF_CONFIG",
        "COORDINATOR_ADDRESS",
        "JAX_PROCESS_ID",
        "JOB_COMPLETION_INDEX",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "SLURM_JOB_ID",
        "TORCHELASTIC_RUN_ID",
        "WORLD_SIZE",
    }
)


class MirroredStrategy(Strategy):
    """Synchronous data parallelism over the devices of one machine.

    Each device runs one replica and has a copy of every variable.

    Args:
        devices: Their names, or logical or JAX devices; all GPUs or TPUs by default, or
            else all CPU devices.
        cross_device_ops: How values of several replicas are added up; XLA's all-reduce
            by default.
        shard_state: Whether each device stores only its part of large variables, to
            save memory; a number of bytes says how large. With "updates", variables
            stay whole, and devices divide their updates. See docs/sharded_state.md.

    >>> strategy = MirroredStrategy(["CPU:0"])
    >>> strategy.num_replicas_in_sync
    1
    """

    def __init__(
        self,
        devices: Sequence[str | LogicalDevice | jax.Device] | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
        *,
        shard_state: bool | int | str = False,
    ) -> None:
        if cross_device_ops is not None and not isinstance(
            cross_device_ops, CrossDeviceOps
        ):
            raise ValueError(
                "`cross_device_ops` must be a `CrossDeviceOps`, such as "
                f"ReductionToOneDevice(). Received: {cross_device_ops!r}."
            )
        if LAUNCHER_VARIABLES & os.environ.keys():
            _warn_of_separate_jobs()
        topology = local_topology(devices)
        ops = cross_device_ops or XlaAllReduce()
        super().__init__(topology, ops, create_mirrored, shard_state=shard_state)


@functools.cache
def _warn_of_separate_jobs() -> None:
    try:
        num_tasks = detection.count_tasks()
    except ValueError:
        # Of a wrong TF_CONFIG, which this strategy does not need.
        return
    if num_tasks > 1 and join.current_job() is None:
        _LOGGER.warning(
            "MirroredStrategy uses the devices of this process only, and %d processes "
            "were started: each trains a model of its own. To train one model "
            "together, use MultiWorkerMirroredStrategy.",
            num_tasks,
        )
