"""The strategies of TensorFlow 1.11."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mirrax
from mirrax.tf.contrib.distribute.distribution import (
    DistributionStrategy as DistributionStrategy,
)


class MirroredStrategy(DistributionStrategy):
    """`tf.contrib.distribute.MirroredStrategy`.

    Args:
        devices: The names of the devices, one for each tower.
        num_gpus: How many GPUs to use, instead of `devices`.
        num_gpus_per_worker: An alias of `num_gpus`.
        cross_tower_ops: How values of several towers are reduced.
        prefetch_on_device: Ignored; input is always prefetched.
    """

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_tower_ops: mirrax.CrossDeviceOps | None = None,
        prefetch_on_device: bool | None = None,
    ) -> None:
        if num_gpus is not None and num_gpus_per_worker is not None:
            raise ValueError(
                "`num_gpus` and `num_gpus_per_worker` are aliases, so only one can be "
                f"given. Received: num_gpus={num_gpus}, "
                f"num_gpus_per_worker={num_gpus_per_worker}."
            )
        count = num_gpus if num_gpus_per_worker is None else num_gpus_per_worker
        if devices and count is not None:
            raise ValueError(
                "`devices` and `num_gpus` both say where to run, so only one can be "
                f"given. Received: devices={devices}, num_gpus={count}."
            )
        self._devices = devices or _gpu_names(count)
        self._cross_tower_ops = cross_tower_ops
        super().__init__()

    def _make(self) -> mirrax.Strategy:
        return mirrax.MirroredStrategy(self._devices, self._cross_tower_ops)

    def configure(
        self,
        session_config: Any = None,
        cluster_spec: Any = None,
        task_type: str | None = None,
        task_id: int | None = None,
    ) -> None:
        """Applies a configuration; with a cluster, spans all its tasks.

        Call it first: a strategy that has been used can no longer join a cluster.
        """
        super().configure(session_config)
        if not cluster_spec:
            return
        if self._is_made:
            raise RuntimeError(
                "`configure` chooses the devices, so it must be called before the "
                f"strategy is used. Received: a cluster for {self!r}, which has been "
                "used. Call `configure` right after creating the strategy."
            )
        spec = mirrax.cluster_resolver.ClusterSpec(cluster_spec)
        resolver = mirrax.cluster_resolver.SimpleClusterResolver(
            spec, task_type=task_type or "worker", task_id=task_id or 0
        )
        devices = self._devices
        self._use(mirrax.MultiWorkerMirroredStrategy(resolver, devices=devices))


class OneDeviceStrategy(DistributionStrategy):
    """`tf.contrib.distribute.OneDeviceStrategy`."""

    def __init__(self, device: str, prefetch_on_device: bool | None = None) -> None:
        self._device = device
        super().__init__()

    def _make(self) -> mirrax.Strategy:
        return mirrax.OneDeviceStrategy(self._device)


def _gpu_names(count: int | None) -> list[str] | None:
    if count is None:
        return None
    return [f"GPU:{index}" for index in range(count)] or ["CPU:0"]
