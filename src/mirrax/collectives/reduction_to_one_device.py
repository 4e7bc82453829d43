"""Reduction by gathering the values and adding them up in order."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from typing_extensions import override

from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.devices.topology import AXIS
from mirrax.options import CommunicationOptions


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
