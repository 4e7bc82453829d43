"""The columns of a parsed batch: one feature of all examples."""

import math
from typing import Any

import numpy as np

from mirrax.data.example.features import (
    BYTES,
    DTYPES,
    KIND_NAMES,
    AnyFeature,
    Array,
    FixedLenFeature,
    VarLenFeature,
    feature_kind,
)
from mirrax.data.plan.columns import as_objects


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
        self._shape: tuple[int, ...] | None = None
        self._default: Array | None = np.empty(0, dtype)
        self._rows: Any = [self._default] * num_rows
        if isinstance(feature, FixedLenFeature):
            self._shape = tuple(feature.shape)
            self._default = _default_of(name, feature)
            self._rows = np.empty((num_rows, math.prod(self._shape)), dtype)

    def fits(self, kind: int, num_values: int) -> bool:
        """Returns whether values of this kind and number can be stored."""
        is_fixed = self._shape is not None
        return kind == self._kind and not (
            is_fixed and num_values != self._rows.shape[1]
        )

    def put_many(self, indices: Array, block: Array) -> None:
        """Stores the values of many examples, one row each."""
        if self._shape is not None:
            self._rows[indices] = block
            return
        for index, values in zip(indices.tolist(), block, strict=True):
            self._rows[index] = values

    def put_one(self, index: int, kind: int, values: Array) -> None:
        """Stores the values of one example; kind 0 means missing."""
        where, own_kind = f"Feature {self.name!r} of example {index}", self._kind
        if not kind and self._default is None:
            raise ValueError(
                f"{where}: Feature: {self.name} (data type: {KIND_NAMES[own_kind]}) is "
                "required but could not be found. Give the feature a `default_value`, "
                "or correct its name."
            )
        if kind and kind != own_kind:
            raise ValueError(
                f"{where}: Data types don't match. Expected type: "
                f"{KIND_NAMES[own_kind]}. Received: {KIND_NAMES[kind]}. "
                "Use the dtype that the examples were written with."
            )
        if kind and not self.fits(kind, len(values)):
            raise ValueError(
                f"{where}: Number of {KIND_NAMES[own_kind]} values != expected. "
                f"Received: {len(values)} values for the shape {self._shape}, which "
                f"has {self._rows.shape[1]}. Correct the shape, or use a "
                "`VarLenFeature`."
            )
        self._rows[index] = values if kind else self._default

    def result(self) -> Any:
        """Returns what the user gets."""
        if self._shape is None:
            return self._rows
        return self._rows.reshape(len(self._rows), *self._shape)


def _default_of(name: str, feature: FixedLenFeature) -> Array | None:
    value = feature.default_value
    if value is None:
        return None
    if feature_kind(feature.dtype) == BYTES:
        given = np.array(value, object)
        flat = [v.encode() if isinstance(v, str) else v for v in given.ravel()]
        given = as_objects(flat).reshape(given.shape)
    else:
        given = np.asarray(value, DTYPES[feature_kind(feature.dtype)])
    shape = tuple(feature.shape)
    if given.size != 1 and given.shape != shape:
        raise ValueError(
            "A default value must be a single one or have the shape of the feature. "
            f"Received: the shape {given.shape} for {name!r} with the shape {shape}. "
            "Reshape the default value."
        )
    return np.broadcast_to(given.ravel(), (math.prod(shape),))
