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
    2         256           0.35      0.10        0.19
    2         101,770       1.21      0.35        0.53
    2         500,000       2.88      1.57        1.69
    2         1,861,642     6.94      4.92        6.49
    2         8,000,000    21.3      49.9        43.5
    4         256           5.36      0.91        6.77
    4         101,770       5.41      2.51        5.04
    4         500,000       7.36      6.56        6.35
    4         1,861,642    13.1      23.1        15.4
    4         8,000,000    48.9     180          95.5
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
