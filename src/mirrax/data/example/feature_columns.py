"""The columns of a parsed batch: one feature of all examples."""

import abc
import math
from typing import Any

import numpy as np
from typing_extensions import override

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


class FeatureColumn(abc.ABC):
    """One feature of all examples."""

    def __init__(self, name: str, feature: AnyFeature) -> None:
        self.name = name
        self._kind = feature_kind(feature.dtype)

    def put_one(self, index: int, kind: int, values: Array) -> None:
        """Stores the values of one example; kind 0 means missing."""
        if not kind:
            self._put_missing(index)
            return
        if kind != self._kind:
            raise ValueError(
                f"{_at(self.name, index)}: Data types don't match. Expected type: "
                f"{KIND_NAMES[self._kind]}. Received: {KIND_NAMES[kind]}. "
                "Use the dtype that the examples were written with."
            )
        self._put(index, values)

    @abc.abstractmethod
    def fits(self, kind: int, num_values: int) -> bool:
        """Returns whether values of this kind and number can be stored."""

    @abc.abstractmethod
    def put_many(self, indices: Array, block: Array) -> None:
        """Stores the values of many examples, one row each."""

    @abc.abstractmethod
    def result(self) -> Any:
        """Returns what the user gets."""

    @abc.abstractmethod
    def _put(self, index: int, values: Array) -> None: ...

    @abc.abstractmethod
    def _put_missing(self, index: int) -> None: ...


class _FixedLenColumn(FeatureColumn):
    def __init__(self, name: str, feature: FixedLenFeature, num_rows: int) -> None:
        super().__init__(name, feature)
        self._shape = tuple(feature.shape)
        self._num_values = math.prod(self._shape)
        self._rows = np.empty((num_rows, self._num_values), DTYPES[self._kind])
        self._default = _default_of(name, feature)

    @override
    def fits(self, kind: int, num_values: int) -> bool:
        return kind == self._kind and num_values == self._num_values

    @override
    def put_many(self, indices: Array, block: Array) -> None:
        self._rows[indices] = block

    @override
    def result(self) -> Any:
        return self._rows.reshape(len(self._rows), *self._shape)

    @override
    def _put(self, index: int, values: Array) -> None:
        if len(values) != self._num_values:
            raise ValueError(
                f"{_at(self.name, index)}: Number of {KIND_NAMES[self._kind]} values "
                f"!= expected. Received: {len(values)} values for the shape "
                f"{self._shape}, which has {self._num_values}. Correct the shape, or "
                "use a `VarLenFeature`."
            )
        self._rows[index] = values

    @override
    def _put_missing(self, index: int) -> None:
        if self._default is None:
            raise ValueError(
                f"{_at(self.name, index)}: Feature: {self.name} (data type: "
                f"{KIND_NAMES[self._kind]}) is required but could not be found. "
                "Give the feature a `default_value`, or correct its name."
            )
        self._rows[index] = self._default


class _VarLenColumn(FeatureColumn):
    def __init__(self, name: str, feature: VarLenFeature, num_rows: int) -> None:
        super().__init__(name, feature)
        self._rows = [np.empty(0, DTYPES[self._kind])] * num_rows

    @override
    def fits(self, kind: int, num_values: int) -> bool:
        return kind == self._kind

    @override
    def put_many(self, indices: Array, block: Array) -> None:
        for index, values in zip(indices.tolist(), block, strict=True):
            self._rows[index] = values

    @override
    def result(self) -> Any:
        return self._rows

    @override
    def _put(self, index: int, values: Array) -> None:
        self._rows[index] = values

    @override
    def _put_missing(self, index: int) -> None:
        self._rows[index] = np.empty(0, DTYPES[self._kind])


def make_column(name: str, feature: AnyFeature, num_rows: int) -> FeatureColumn:
    """Returns the column of a feature, for a number of examples."""
    if isinstance(feature, FixedLenFeature):
        return _FixedLenColumn(name, feature, num_rows)
    if isinstance(feature, VarLenFeature):
        return _VarLenColumn(name, feature, num_rows)
    raise TypeError(
        "A feature must be a `FixedLenFeature` or a `VarLenFeature`. "
        f"Received: {feature!r} for {name!r}. Use one of these."
    )


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


def _at(name: str, index: int) -> str:
    return f"Feature {name!r} of example {index}"
