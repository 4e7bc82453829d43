"""Descriptions of values: shapes, dtypes, and which differ between replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mirrax.errors import SignatureMismatch
from mirrax.values.array_like import as_array

Shape = tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, init=False)
class TensorSpec:
    """Shape and dtype of an array; a dimension that is None can have any size.

    >>> @mirrax.function(input_signature=[TensorSpec([None, 2])])
    ... def total(rows):
    ...     return rows.sum()
    >>> float(total(np.ones((3, 2), np.float32)))
    6.0
    """

    shape: Shape | None
    dtype: np.dtype[Any]
    name: str | None

    def __init__(
        self,
        shape: Sequence[int | None] | None,
        dtype: Any = np.float32,
        name: str | None = None,
    ) -> None:
        object.__setattr__(self, "shape", None if shape is None else tuple(shape))
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        # The text that TensorFlow prints, which has shapes of unknown rank, too.
        shape = "<unknown>" if self.shape is None else self.shape
        kind = "string" if self.dtype.kind in "OSU" else self.dtype.name
        return f"TensorSpec(shape={shape}, dtype=tf.{kind}, name={self.name!r})"

    def check(self, value: Any) -> None:
        """Raises unless `value` is an array of this shape and dtype."""
        value = as_array(value)
        if not isinstance(value, jax.Array | np.ndarray | np.generic):
            value = np.asarray(value)
        found, wanted = (
            jax.dtypes.canonicalize_dtype(d) for d in (value.dtype, self.dtype)
        )
        if found != wanted or not self.allows(value.shape):
            raise SignatureMismatch(
                "An argument must fit its entry in `input_signature`. Received: "
                f"{value.dtype}{list(value.shape)} for {self}. Convert or reshape the "
                "argument, or leave sizes open in the signature with None."
            )

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Returns whether an array of this shape fits."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            want in (None, size) for size, want in zip(shape, self.shape, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class PerReplicaSpec:
    """Descriptions of the parts of a `PerReplica`, one for each local replica."""

    parts: tuple[TensorSpec, ...]

    def __repr__(self) -> str:
        return f"PerReplicaSpec({', '.join(map(repr, self.parts))})"
