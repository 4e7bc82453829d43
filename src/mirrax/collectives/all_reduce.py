"""All-reduce by XLA: the default, and under the names that TensorFlow gives it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

import jax
from jax import lax
from typing_extensions import override

from mirrax.collectives import packing
from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.devices.topology import AXIS
from mirrax.options import CommunicationOptions

_logger = logging.getLogger(__name__)


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


class NcclAllReduce(CrossDeviceOps):
    """All-reduce with NCCL, which XLA uses on GPUs; elsewhere XLA's own.

    Args:
        num_packs: Into how many messages to pack the values of one call; 0 sends each
            separately.

    >>> strategy = mirrax.MirroredStrategy(cross_device_ops=NcclAllReduce(num_packs=2))
    """

    def __init__(self, num_packs: int = 1) -> None:
        self._num_packs = _require_packs(num_packs)

    @override
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        if jax.default_backend() != "gpu":
            _say_fallback(jax.default_backend())
        return packing.in_num_packs(values, self._num_packs, psum)


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """All-reduce that follows the links between devices, as XLA's does by itself.

    Args:
        num_packs: Into how many messages to pack the values of one call; 0 sends each
            separately.

    >>> strategy = mirrax.MirroredStrategy(cross_device_ops=HierarchicalCopyAllReduce())
    """

    def __init__(self, num_packs: int = 1) -> None:
        self._num_packs = _require_packs(num_packs)

    @override
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        return packing.in_num_packs(values, self._num_packs, psum)


def psum(values: Sequence[jax.Array]) -> list[jax.Array]:
    """Returns the sums over the replicas; XLA may pack them into one message."""
    return list(lax.psum(tuple(values), AXIS))


def _require_packs(num_packs: int) -> int:
    if num_packs < 0:
        raise ValueError(
            "`num_packs` must be 0 (no packing) or the number of messages. "
            f"Received: num_packs={num_packs}."
        )
    return num_packs


@functools.cache
def _say_fallback(platform: str) -> None:
    _logger.info("NcclAllReduce: no NCCL on %s; XLA's own all-reduce is used", platform)
