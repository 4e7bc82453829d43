"""Descriptions of features in an `Example`, and the columns of a parsed batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.data.plan.columns import as_strings
from mirrax.errors import InvalidArgumentError


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


class FeatureColumn:
    """One feature of all examples.

    `FixedLenFeature`s are the rows of an array, `VarLenFeature`s a list of arrays.
    """

    def __init__(self, name: str, feature: AnyFeature, num_rows: int) -> None:
        if not isinstance(feature, FixedLenFeature | VarLenFeature):
            raise TypeError(
                "A feature must be a `FixedLenFeature` or a `VarLenFeature`. "
                f"Received: {feature!r} for {name!r}. Use one of these."
            )
        self.name = name
        self._kind = feature_kind(feature.dtype)
        dtype = DTYPES[self._kind]
        self._rows: Any
        self._shape: tuple[int, ...] | None
        self._default: Array | None
        if isinstance(feature, FixedLenFeature):
            self._shape = tuple(feature.shape)
            self._default = _default_of(name, feature)
            self._rows = np.empty((num_rows, math.prod(self._shape)), dtype)
        else:
            self._shape = None
            self._default = np.empty(0, dtype)
            self._rows = [self._default] * num_rows

    def fits(self, kind: int, num_values: int) -> bool:
        """Returns whether values of this kind and number can be stored."""
        is_fixed = self._shape is not None
        return kind == self._kind and not (
            is_fixed and num_values != self._rows.shape[1]
        )

    def put_many(self, indices: Array, block: Array) -> None:
        if self._shape is not None:
            self._rows[indices] = block
            return
        for index, values in zip(indices.tolist(), block, strict=True):
            self._rows[index] = values

    def put_one(self, index: int, kind: int, values: Array) -> None:
        """Stores the values of one example; kind 0 means missing."""
        where, own_kind = f"Feature {self.name!r} of example {index}", self._kind
        if not kind and self._default is None:
            raise InvalidArgumentError(
                f"{where}: Feature: {self.name} (data type: {KIND_NAMES[own_kind]}) is "
                "required but could not be found. Give the feature a `default_value`, "
                "or correct its name."
            )
        if kind and kind != own_kind:
            raise InvalidArgumentError(
                f"{where}: Data types don't match. Expected type: "
                f"{KIND_NAMES[own_kind]}. Received: {KIND_NAMES[kind]}. "
                "Use the dtype that the examples were written with."
            )
        if kind and not self.fits(kind, len(values)):
            raise InvalidArgumentError(
                f"{where}: Number of {KIND_NAMES[own_kind]} values != expected. "
                f"Received: {len(values)} values for the shape {self._shape}, which "
                f"has {self._rows.shape[1]}. Correct the shape, or use a "
                "`VarLenFeature`."
            )
        self._rows[index] = values if kind else self._default

    def result(self) -> Any:
        if self._shape is None:
            return self._rows
        return self._rows.reshape(len(self._rows), *self._shape)


def _default_of(name: str, feature: FixedLenFeature) -> Array | None:
    value = feature.default_value
    if value is None:
        return None
    kind = feature_kind(feature.dtype)
    given = np.asarray(value, DTYPES[kind])
    if kind == BYTES:
        given = as_strings(given.ravel().tolist()).reshape(given.shape)
    shape = tuple(feature.shape)
    if given.size not in (1, math.prod(shape)):
        raise ValueError(
            "A default value must be a single one, or one for each value of the "
            f"feature. Received: the shape {given.shape} for {name!r} with the shape "
            f"{shape}. Correct the default value."
        )
    return np.broadcast_to(given.ravel(), (math.prod(shape),))
