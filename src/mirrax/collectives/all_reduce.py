"""The algorithms that add up values of replicas, under TensorFlow's names."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from typing_extensions import override

from mirrax.collectives import packing
from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.devices.topology import AXIS
from mirrax.options import CommunicationOptions


class XlaAllReduce(CrossDeviceOps):
    """XLA's all-reduce."""

    @override
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        if not options.bytes_per_pack:
            return psum(values)
        groups = packing.groups_by_bytes(values, options.bytes_per_pack)
        return packing.in_packs(values, groups, psum)


class _NamedAllReduce(XlaAllReduce):
    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 0:
            raise ValueError(
                "`num_packs` must be 0 (no packing) or the number of messages. "
                f"Received: num_packs={num_packs}."
            )


class NcclAllReduce(_NamedAllReduce):
    """All-reduce with NCCL, which XLA uses on GPUs; elsewhere XLA's own.

    Args:
        num_packs: Accepted for ported programs. XLA joins small messages by itself;
            `CommunicationOptions(bytes_per_pack=...)` sets their size.

    >>> strategy = mirrax.MirroredStrategy(cross_device_ops=NcclAllReduce(num_packs=2))
    """


class HierarchicalCopyAllReduce(_NamedAllReduce):
    """XLA's all-reduce, which knows the links between devices by itself.

    Args:
        num_packs: Accepted for ported programs, as in `NcclAllReduce`.

    >>> strategy = mirrax.MirroredStrategy(cross_device_ops=HierarchicalCopyAllReduce())
    """


class ReductionToOneDevice(CrossDeviceOps):
    """Gathers every replica's value, then combines them in replica order.

    Slower than an all-reduce, but the order of the additions is fixed, and
    `accumulation_fn` can replace the sum.

    Args:
        reduce_to_device: Accepted for ported programs. Every replica needs the result,
            so each combines the gathered values itself.
        accumulation_fn: Combines a list of arrays; the sum by default.

    >>> largest = ReductionToOneDevice(
    ...     accumulation_fn=lambda values: jax.numpy.stack(values).max(0)
    ... )
    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], largest)
    >>> values = mirrax.PerReplica((3.0, 5.0))
    >>> float(strategy.reduce("SUM", values, axis=None))
    5.0
    """

    def __init__(
        self,
        reduce_to_device: str | None = None,
        accumulation_fn: Callable[[list[jax.Array]], Any] | None = None,
    ) -> None:
        self.reduce_to_device = reduce_to_device
        self._accumulate = accumulation_fn or functools.partial(
            functools.reduce, operator.add
        )

    @override
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        gathered = lax.all_gather(tuple(values), AXIS)
        return [
            self._accumulate([stack[i] for i in range(num_replicas)])
            for stack in gathered
        ]


def psum(values: Sequence[jax.Array]) -> list[jax.Array]:
    """Returns the sums over the replicas; XLA may pack them into one message."""
    return list(lax.psum(tuple(values), AXIS))
