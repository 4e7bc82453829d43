"""Small values of CPU devices, combined without a collective.

The devices lie in one memory. To wake a thread for each, which is how they would meet,
takes several times as long as to add up small values in the thread that asks.
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
from mirrax.collectives.all_reduce import AllReduce
from mirrax.collectives.reduce import Collective, reduce_one
from mirrax.devices.topology import Topology
from mirrax.options import ReduceOp

MAX_BYTES = 1 << 16
"""Up to which size the values of one replica together are small."""

# Not bfloat16 and the like, which collectives add up as float32; nor what has 64 bits,
# which JAX cuts off where that is not enabled.
_DTYPES = {
    np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
        *("float16", "float32", "complex64"),
    )
}


def all_reduce(
    collective: Collective, op: ReduceOp, rows: Sequence[Sequence[jax.Array]]
) -> list[list[jax.Array]] | None:
    """Returns what each replica gets, on its device; None if it takes a collective.

    Args:
        collective: The devices, and how to add up.
        op: How to combine.
        rows: The values of each replica.
    """
    if not _is_applicable(collective) or not _are_small(rows):
        return None
    on_host = [[np.asarray(value) for value in row] for row in rows]
    devices = collective.topology.devices
    with jax.default_device(devices[0]):
        first: list[jax.Array] = _combined(on_host, op)
    combined = [np.asarray(value) for value in first]
    others = [[copied(value, device) for value in combined] for device in devices[1:]]
    return [first, *others]


def _is_applicable(collective: Collective) -> bool:
    return (
        _is_in_host_memory(collective.topology)
        and type(collective.ops) is AllReduce
        and is_eager()
        and not checks_results()
        and not guards_transfers()
    )


@functools.lru_cache(maxsize=64)
def _is_in_host_memory(topology: Topology) -> bool:
    return topology.is_local and topology.devices[0].platform == "cpu"


def _are_small(rows: Sequence[Sequence[Any]]) -> bool:
    """Returns whether these are few bytes, of one kind on all replicas."""
    first = rows[0]
    if sum([value.nbytes for value in first]) > MAX_BYTES:
        return False
    for row in rows:
        for value, like in zip(row, first, strict=True):
            if (
                type(value) is not ArrayImpl
                or value.shape != like.shape
                or value.dtype != like.dtype
                or value.dtype not in _DTYPES
            ):
                return False
    return True


@functools.partial(jax.jit, static_argnums=1)
def _combined(rows: Sequence[Sequence[jax.Array]], op: ReduceOp) -> list[jax.Array]:
    """Returns values added up in the order of replicas, as XLA's all-reduce does."""
    columns = [
        [reduce_one(op, value, axis=None) for value in column]
        for column in zip(*rows, strict=True)
    ]
    sums = [functools.reduce(operator.add, column) for column in columns]
    return sums if op is ReduceOp.SUM else [total / len(rows) for total in sums]
