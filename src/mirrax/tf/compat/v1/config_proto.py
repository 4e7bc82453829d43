"""`tf.compat.v1.ConfigProto`: a dataclass whose fields are applied to JAX."""

from __future__ import annotations

import dataclasses
import os
import types
from typing import Any

import mirrax


@dataclasses.dataclass
class GPUOptions:
    """How JAX uses the memory of GPUs.

    Args:
        per_process_gpu_memory_fraction: The fraction of the memory to preallocate; 0
            leaves the choice to JAX.
        allow_growth: Whether to allocate memory on demand.
        visible_device_list: The indices of the GPUs to use, such as "0,2".
    """

    per_process_gpu_memory_fraction: float = 0.0
    allow_growth: bool = False
    allocator_type: str = ""
    deferred_deletion_bytes: int = 0
    visible_device_list: str = ""
    polling_active_delay_usecs: int = 0
    polling_inactive_delay_msecs: int = 0
    force_gpu_compatible: bool = False


class GraphOptions(types.SimpleNamespace):
    """Settings of TensorFlow's graphs; ignored, XLA has none of them."""


class RPCOptions(types.SimpleNamespace):
    """Settings of TensorFlow's RPC protocol; ignored, JAX does not use it."""


class Experimental(types.SimpleNamespace):
    """Experimental settings of TensorFlow; ignored."""


@dataclasses.dataclass
class ConfigProto:
    """Settings applied at start-up.

    `enable_eager_execution(config)` and `strategy.configure(config)` apply them. Only
    those listed here affect JAX; the others are stored and ignored.

    Args:
        device_count: `{"CPU": n}` creates `n` logical CPU devices.
        intra_op_parallelism_threads: With 1, an operation runs on one CPU thread.
        gpu_options: Which GPUs to use, and how much of their memory.
    """

    device_count: dict[str, int] = dataclasses.field(default_factory=dict)
    intra_op_parallelism_threads: int = 0
    inter_op_parallelism_threads: int = 0
    use_per_session_threads: bool = False
    session_inter_op_thread_pool: list[Any] = dataclasses.field(default_factory=list)
    placement_period: int = 0
    device_filters: list[str] = dataclasses.field(default_factory=list)
    gpu_options: GPUOptions = dataclasses.field(default_factory=GPUOptions)
    pluggable_device_options: GPUOptions = dataclasses.field(default_factory=GPUOptions)
    allow_soft_placement: bool = False
    log_device_placement: bool = False
    graph_options: GraphOptions = dataclasses.field(default_factory=GraphOptions)
    operation_timeout_in_ms: int = 0
    rpc_options: RPCOptions = dataclasses.field(default_factory=RPCOptions)
    cluster_def: Any = None
    isolate_session_state: bool = False
    share_cluster_devices_in_session: bool = False
    experimental: Experimental = dataclasses.field(default_factory=Experimental)

    Experimental = Experimental

    def apply(self) -> None:
        """Applies these settings to the process; call it before JAX starts."""
        if self.device_count.get("CPU"):
            mirrax.config.set_logical_devices("CPU", self.device_count["CPU"])
        os.environ.update(self.environment(os.environ.get("XLA_FLAGS", "")))

    def environment(self, xla_flags: str = "") -> dict[str, str]:
        """Returns these settings as environment variables.

        >>> options = GPUOptions(allow_growth=True)
        >>> ConfigProto(gpu_options=options).environment()
        {'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'}
        """
        found = {}
        gpu = self.gpu_options
        if gpu.allow_growth:
            found["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if gpu.per_process_gpu_memory_fraction:
            fraction = str(gpu.per_process_gpu_memory_fraction)
            found["XLA_PYTHON_CLIENT_MEM_FRACTION"] = fraction
        if gpu.visible_device_list:
            found["CUDA_VISIBLE_DEVICES"] = gpu.visible_device_list
        if self.intra_op_parallelism_threads == 1:
            flag = "--xla_cpu_multi_thread_eigen=false"
            found["XLA_FLAGS"] = f"{xla_flags} {flag}".strip()
        return found
