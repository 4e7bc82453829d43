"""`TensorSpec`: the description of an array."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.errors import SignatureMismatch
from mirrax.values.array_like import as_array, is_array

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
        # A shape without a known rank, as TensorFlow has, is no sequence.
        is_unknown = shape is None or getattr(shape, "rank", 0) is None
        object.__setattr__(self, "shape", None if is_unknown else tuple(shape))  # type: ignore[arg-type]
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        shape = "<unknown>" if self.shape is None else self.shape
        dtype = self.dtype_text(self.dtype)
        return f"TensorSpec(shape={shape}, dtype={dtype}, name={self.name!r})"

    @staticmethod
    def dtype_text(dtype: np.dtype[Any]) -> str:
        """Returns what `repr` shows of a dtype: NumPy's name."""
        return str(dtype)

    def check(self, value: Any) -> None:
        """Raises unless `value` is an array of this shape and dtype."""
        value = as_array(value)
        if not is_array(value):
            value = np.asarray(value)
        found, wanted = (
            jax.dtypes.canonicalize_dtype(d) for d in (value.dtype, self.dtype)
        )
        if found != wanted or not self.allows(value.shape):
            raise SignatureMismatch(
                "An argument must match its entry in `input_signature`. Received: "
                f"{value.dtype}{list(value.shape)} for {self}. Convert or reshape the "
                "argument, or use None for sizes that vary."
            )

    def converted(self, value: Any) -> Any:
        """Returns numbers of the host with this dtype if it is floating.

        Arrays of JAX keep their dtypes, and so does what is not a real number.
        """
        on_host = isinstance(value, int | float | np.generic | np.ndarray)
        if not on_host or not jnp.issubdtype(self.dtype, jnp.floating):
            return value
        numbers = np.asarray(value)
        is_integer = jnp.issubdtype(numbers.dtype, np.integer)
        is_real = is_integer or jnp.issubdtype(numbers.dtype, jnp.floating)
        return numbers.astype(self.dtype, copy=False) if is_real else value

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Returns whether an array of this shape matches."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            want in (None, size) for size, want in zip(shape, self.shape, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class PerReplicaSpec:
    """Descriptions of the parts of a `PerReplica`, one for each local replica.

    >>> PerReplicaSpec((TensorSpec([2]), TensorSpec([1]))).parts[1].shape
    (1,)
    """

    parts: tuple[TensorSpec, ...]

    def __repr__(self) -> str:
        return f"PerReplicaSpec{self.parts!r}"
