"""All-reduce of small values on CPU devices, without a collective.

The devices share memory. Waking a thread for each device takes several times as long as
adding up small values in the calling thread.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mirrax._jax.arrays import ArrayImpl, copied
from mirrax._jax.config import checks_results, guards_transfers
from mirrax._jax.traces import is_eager
from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.reduce import Collective, reduce_one
from mirrax.devices.topology import Topology
from mirrax.options import ReduceOp

MAX_BYTES = 1 << 16
"""Up to which total size the values of one replica are small."""

# Without bfloat16 and such, which collectives add up as float32, and without 64-bit
# types, which JAX truncates unless they are enabled.
_DTYPES = {
    np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
        *("float16", "float32", "complex64"),
    )
}


def all_reduce(
    collective: Collective, op: ReduceOp, per_replica: Sequence[Sequence[jax.Array]]
) -> list[list[jax.Array]] | None:
    """Returns the results of each replica, on its device; None if not applicable."""
    if not _is_applicable(collective) or not _are_small(per_replica):
        return None
    on_host = [[np.asarray(value) for value in values] for values in per_replica]
    devices = collective.topology.devices
    with jax.default_device(devices[0]):
        first: list[jax.Array] = _combined(on_host, op)
    combined = [np.asarray(value) for value in first]
    others = [[copied(value, device) for value in combined] for device in devices[1:]]
    return [first, *others]


def _is_applicable(collective: Collective) -> bool:
    return (
        _is_in_host_memory(collective.topology)
        and type(collective.ops) is XlaAllReduce
        and is_eager()
        and not checks_results()
        and not guards_transfers()
    )


@functools.lru_cache(maxsize=64)
def _is_in_host_memory(topology: Topology) -> bool:
    return topology.is_local and topology.devices[0].platform == "cpu"


def _are_small(per_replica: Sequence[Sequence[Any]]) -> bool:
    """Returns whether the values are small, and of equal shape and dtype."""
    first = per_replica[0]
    if sum([value.nbytes for value in first]) > MAX_BYTES:
        return False
    return all(
        type(value) is ArrayImpl
        and value.shape == expected.shape
        and value.dtype == expected.dtype
        and value.dtype in _DTYPES
        for values in per_replica
        for value, expected in zip(values, first, strict=True)
    )


@functools.partial(jax.jit, static_argnums=1)
def _combined(
    per_replica: Sequence[Sequence[jax.Array]], op: ReduceOp
) -> list[jax.Array]:
    """Adds up in replica order, as XLA's all-reduce does."""
    columns = [
        [reduce_one(op, value, axis=None) for value in column]
        for column in zip(*per_replica, strict=True)
    ]
    sums = [functools.reduce(operator.add, column) for column in columns]
    return sums if op is ReduceOp.SUM else [s / len(per_replica) for s in sums]
