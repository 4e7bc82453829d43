"""Descriptions of features in an `Example`, and the kinds of their values."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class FixedLenFeature:
    """A feature with the same number of values in every example.

    Args:
        shape: The shape of the values of one example; () for a single value, a number
            for a vector.
        dtype: float32, int64, or bytes for strings.
        default_value: What an example without the feature has; None makes it an error.

    >>> feature = mirrax.data.FixedLenFeature([2], "float32", default_value=0.0)
    >>> feature.shape, feature.dtype
    ([2], 'float32')
    """

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None

    def __post_init__(self) -> None:
        feature_kind(self.dtype)
        if isinstance(self.shape, int):
            object.__setattr__(self, "shape", (self.shape,))
        if None in self.shape or any(size < 0 for size in self.shape):
            raise ValueError(
                "The shape of a `FixedLenFeature` must be known. "
                f"Received: shape={self.shape!r}. Use a `VarLenFeature`."
            )


@dataclasses.dataclass(frozen=True)
class VarLenFeature:
    """A feature with any number of values in each example.

    Args:
        dtype: float32, int64, or bytes for strings.

    >>> mirrax.data.VarLenFeature("int64")
    VarLenFeature(dtype='int64')
    """

    dtype: Any

    def __post_init__(self) -> None:
        feature_kind(self.dtype)


AnyFeature = FixedLenFeature | VarLenFeature


Array = np.ndarray[Any, Any]

# The numbers of the fields of Feature.
BYTES, FLOAT, INT64 = 1, 2, 3
DTYPES = {
    BYTES: np.dtype(object),
    FLOAT: np.dtype(np.float32),
    INT64: np.dtype(np.int64),
}
KIND_NAMES = {BYTES: "bytes", FLOAT: "float32", INT64: "int64"}


def feature_kind(dtype: Any) -> int:
    """Returns the kind of the values of a dtype."""
    kinds = {"f4": FLOAT, "i8": INT64, "S": BYTES, "U": BYTES, "O": BYTES}
    try:
        given = np.dtype("S" if dtype == "string" else dtype)
    except TypeError:
        given = np.dtype(bool)
    kind = kinds.get(given.kind) or kinds.get(f"{given.kind}{given.itemsize}")
    if dtype is None or kind is None:
        raise ValueError(
            "The dtype of a feature must be float32, int64 or bytes: examples hold "
            f"nothing else. Received: {dtype!r}. Parse as one of these and convert."
        )
    return kind
