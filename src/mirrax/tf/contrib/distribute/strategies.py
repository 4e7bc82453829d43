"""The strategies of TensorFlow 1.11."""

from __future__ import annotations

from collections.abc import Sequence

import mirrax
from mirrax.tf.contrib.distribute.distribution import (
    DistributionStrategy as DistributionStrategy,
)


class MirroredStrategy(DistributionStrategy):
    """`tf.contrib.distribute.MirroredStrategy`.

    Args:
        devices: The names of the devices, one for each tower.
        num_gpus: How many GPUs to use, in place of `devices`.
        num_gpus_per_worker: Another name of `num_gpus`.
        cross_tower_ops: How values of several towers are added up.
        prefetch_on_device: Accepted; input is always brought to the devices early.
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
                "`num_gpus` and `num_gpus_per_worker` mean the same, so only one can "
                f"be given. Received: num_gpus={num_gpus}, "
                f"num_gpus_per_worker={num_gpus_per_worker}."
            )
        count = num_gpus if num_gpus_per_worker is None else num_gpus_per_worker
        if devices and count is not None:
            raise ValueError(
                "`devices` and `num_gpus` both say where to run, so only one can be "
                f"given. Received: devices={devices}, num_gpus={count}."
            )
        self._cross_tower_ops = cross_tower_ops
        super().__init__(
            mirrax.MirroredStrategy(devices or _gpu_names(count), cross_tower_ops)
        )


class OneDeviceStrategy(DistributionStrategy):
    """`tf.contrib.distribute.OneDeviceStrategy`."""

    def __init__(self, device: str, prefetch_on_device: bool | None = None) -> None:
        super().__init__(mirrax.OneDeviceStrategy(device))


def _gpu_names(count: int | None) -> list[str] | None:
    if count is None:
        return None
    return [f"GPU:{index}" for index in range(count)] or ["CPU:0"]
