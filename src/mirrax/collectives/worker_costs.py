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
    2         256           1.33      0.11        1.14
    2         101,770       1.22      0.30        0.90
    2         500,000       1.91      1.43        2.48
    2         1,861,642     5.90      5.65        6.88
    2         8,000,000    24.0      43.5        37.5
    3         256           3.66      1.38        3.07
    3         101,770       3.43      1.71        2.51
    3         500,000       3.47      3.67        4.25
    3         1,861,642     8.55     11.4        10.7
    3         8,000,000    42.4      90.5        63.9
    4         256           6.94      2.23        5.84
    4         101,770       6.20      1.67        4.35
    4         500,000       6.66      5.89        6.15
    4         1,861,642    13.0      19.7        14.5
    4         8,000,000    49.6     181          69.0

The same for 2 workers with two devices each:

    replicas  floats       XLA's    in full   in pieces
    4         256           1.58      0.41        1.80
    4         101,770       1.96      1.39        1.26
    4         500,000       4.38      5.73        5.58
    4         1,861,642    10.8      19.2        13.5
    4         8,000,000    46.9     178          87.6
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
