"""Dividing a global batch among replicas."""

from __future__ import annotations

import itertools


def split_batch(batch_size: int, num_replicas: int) -> list[slice]:
    """Returns the rows of a global batch that each replica gets.

    Pieces of equal size are cut from the front; the last replicas may get less, or
    nothing.

    >>> split_batch(5, num_replicas=4)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None), slice(5, 5, None)]
    """
    size = -(-batch_size // num_replicas)
    cuts = [min(i * size, batch_size) for i in range(num_replicas + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
