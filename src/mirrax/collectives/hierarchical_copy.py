"""Reduction in two stages: inside groups of devices, then between the groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
from jax import lax
from typing_extensions import override

from mirrax.collectives import packing
from mirrax.collectives.all_reduce import psum, require_packs
from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.collectives.spmd import promise_mirrored
from mirrax.devices.topology import AXIS
from mirrax.options import CommunicationOptions


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """Adds up inside groups of neighbouring devices, then between the groups.

    For machines whose devices are linked in cliques. A prime number of devices forms
    one group.

    Args:
        num_packs: Into how many messages to pack the values of one call; 0 sends each
            separately.

    >>> strategy = mirrax.MirroredStrategy(cross_device_ops=HierarchicalCopyAllReduce())
    """

    def __init__(self, num_packs: int = 1) -> None:
        self._num_packs = require_packs(num_packs)

    @override
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        size = group_size(num_replicas)
        if size == 1:
            return psum(values)

        def two_stages(arrays: list[jax.Array]) -> list[jax.Array]:
            for groups in stages(num_replicas, size):
                arrays = lax.psum(arrays, AXIS, axis_index_groups=groups)
            return [promise_mirrored(array) for array in arrays]

        return packing.in_num_packs(values, self._num_packs, two_stages)


def group_size(num_replicas: int) -> int:
    """Returns the largest divisor that is at most the square root.

    >>> [group_size(n) for n in (2, 3, 4, 6, 8)]
    [1, 1, 2, 2, 2]
    """
    return next(
        size
        for size in range(math.isqrt(num_replicas), 0, -1)
        if num_replicas % size == 0
    )


def stages(num_replicas: int, size: int) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the groups of both stages.

    >>> stages(4, 2)
    ([[0, 1], [2, 3]], [[0, 2], [1, 3]])
    """
    near = [list(range(i, i + size)) for i in range(0, num_replicas, size)]
    return near, [list(column) for column in zip(*near, strict=True)]
