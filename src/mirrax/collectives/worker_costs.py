"""Which way to add up and to gather is the quickest between CPU workers.

By the bytes that a replica receives if all send it everything, which are those of the
value times the number of other replicas:

    operation   replicas    up to     quickest   above it
    sum         2           6 MB      in full    XLA's all-reduce
    sum         3 or more   6 MB      in full    in pieces
    gather      any         128 KiB   exchange   XLA's all-gather

In pieces is slower than XLA's all-reduce, but adds up in the order of the replicas.
Values of up to 512 KiB are packed into one message. `benchmarks/worker_sums.py` on 2
cores, one device for each worker, milliseconds:

    workers   floats       XLA's    in full   in pieces
    2         256           0.38      0.22        0.39
    2         101,770       1.96      0.92        1.93
    2         500,000       4.00      3.17        4.21
    2         1,861,642     7.32      7.46        7.60
    2         8,000,000    42.4      68.7        68.4
    4         256           4.45      1.55        4.84
    4         101,770       6.96      2.66        7.31
    4         500,000       9.20      8.13        7.49
    4         1,861,642    19.1      27.4        20.8
    4         8,000,000    65.4     220         116
"""

from __future__ import annotations

import jax

from mirrax.options import CpuSum

PACKED_BYTES = 512 * 1024
SUM_IN_FULL_BYTES = 6_000_000
GATHER_BYTES = 128 * 1024


def quickest_sum(value: jax.Array, num_replicas: int) -> CpuSum:
    """Returns how CPU workers should add up such values."""
    if _received_bytes(value, num_replicas) <= SUM_IN_FULL_BYTES:
        return CpuSum.IN_FULL
    # Two numbers have only one order, so XLA's sum has the same bits.
    return CpuSum.ALL_REDUCE if num_replicas == 2 else CpuSum.IN_PIECES


def is_gathered_by_exchange(value: jax.Array, num_replicas: int) -> bool:
    """Returns whether CPU workers should send each other such values one by one."""
    return _received_bytes(value, num_replicas) <= GATHER_BYTES


def _received_bytes(value: jax.Array, num_replicas: int) -> int:
    return int(value.size * value.dtype.itemsize * (num_replicas - 1))
