"""`tf.ragged`: tensors whose rows have different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor


def constant(pylist: Any, dtype: Any = None, *_: Any, **__: Any) -> RaggedTensor:
    """Returns a ragged tensor of a list of lists."""
    return RaggedTensor.from_rows(pylist, dtype)


def stack(values: Any, axis: int = 0, name: Any = None) -> RaggedTensor:
    """Returns tensors of different lengths as the rows of a ragged tensor."""
    return RaggedTensor.from_rows([np.asarray(value) for value in values])


def boolean_mask(data: Any, mask: Any, name: Any = None) -> RaggedTensor:
    """Returns the values of each row at which the mask is true."""
    pairs = zip(data, mask, strict=True)
    return stack([np.asarray(row)[np.asarray(kept)] for row, kept in pairs])


def range(starts: Any, limits: Any = None, deltas: Any = 1, **_: Any) -> RaggedTensor:
    """Returns a row of numbers for each start and limit."""
    first, last = (0, starts) if limits is None else (starts, limits)
    rows = np.broadcast_arrays(*map(np.atleast_1d, (first, last, deltas)))
    return stack([np.arange(*row) for row in zip(*rows, strict=True)])


def row_splits_to_segment_ids(splits: Any, name: Any = None, **_: Any) -> Any:
    """Returns the number of the row of each value."""
    return host(np.repeat(np.arange(len(splits) - 1), np.diff(np.asarray(splits))))


def map_flat_values(op: Callable[..., Any], ragged: Any, *others: Any) -> RaggedTensor:
    """Returns a function of the values; it must not depend on the rows."""
    return ragged.map(op, *others)
