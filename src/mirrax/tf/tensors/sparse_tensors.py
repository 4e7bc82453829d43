"""Tensors that are given by some of their values; the others are zero."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.data import PaddedInBatches
from mirrax.tf.errors import InvalidArgumentError, NotCompilable
from mirrax.tf.tensors.host_tensors import flat_array, host
from mirrax.tf.tensors.tensor_shape import TensorShape


@jax.tree_util.register_pytree_node_class
class SparseTensor(PaddedInBatches):
    """`tf.SparseTensor`.

    As an element of a dataset, or an argument of `run` and `function`, it is two
    arrays: the dense tensor, and where it has values.

    Args:
        indices: The positions of the values: a row of integers for each, all different.
        values: The values.
        dense_shape: The shape of the dense tensor.

    >>> sparse = SparseTensor([[0, 1], [1, 0]], [3, 4], [2, 2])
    >>> sparse.dense.tolist()
    [[0, 3], [4, 0]]
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        places = np.asarray(indices, np.int64)
        given = values if hasattr(values, "dtype") else flat_array(values)
        shape = tuple(int(size) for size in np.asarray(dense_shape).tolist())
        _require_index_per_value(places, tuple(given.shape), shape)
        sizes = host(np.asarray(shape, np.int64))
        self._found: tuple[Any, Any, Any] | None = (host(places), host(given), sizes)
        self._arrays: tuple[Any, Any] | None = None

    @classmethod
    def of_dense(cls, dense: Any, mask: Any) -> SparseTensor:
        """Returns the values of a dense tensor where the mask is true."""
        sparse = cls.__new__(cls)
        sparse._found, sparse._arrays = None, (dense, mask)
        return sparse

    @property
    def dense(self) -> Any:
        """The dense tensor."""
        return self._dense_and_mask()[0]

    @property
    def indices(self) -> Any:
        return self._parts()[0]

    @property
    def values(self) -> Any:
        return self._parts()[1]

    @property
    def is_spec(self) -> bool:
        """Whether it describes sparse tensors, with specs in place of arrays."""
        return self._found is None and isinstance(self.dense, mirrax.TensorSpec)

    @property
    def dense_shape(self) -> Any:
        if self._found is None:
            return host(np.asarray(self.dense.shape, np.int64))
        return self._found[2]

    @property
    def shape(self) -> TensorShape:
        if self.is_spec:
            return TensorShape(self.dense.shape)
        return TensorShape(self.dense_shape.tolist())

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def dtype(self) -> Any:
        return (self.dense if self._found is None else self._found[1]).dtype

    def __repr__(self) -> str:
        if self.is_spec:
            text = self.dense.dtype_text(self.dtype)
            return f"SparseTensorSpec(TensorShape({[*self.shape]}), {text})"
        # A traced one has no values.
        if self._found is None and not isinstance(self.dense, np.ndarray):
            return f"SparseTensor({self.dense})"
        return f"SparseTensor({self.indices}, {self.values}, {self.shape})"

    def __eq__(self, other: object) -> bool:
        if self.is_spec and isinstance(other, SparseTensor):
            return repr(self) == repr(other)
        return self is other

    __hash__ = object.__hash__

    def tree_flatten(self) -> tuple[Any, None]:
        return self._dense_and_mask(), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> SparseTensor:
        return cls.of_dense(*leaves)

    def __mul__(self, other: Any) -> SparseTensor:
        dense, mask = self._dense_and_mask()
        return SparseTensor.of_dense(host(dense * other), mask)

    def __truediv__(self, other: Any) -> SparseTensor:
        dense, mask = self._dense_and_mask()
        return SparseTensor.of_dense(host(dense / other), mask)

    def _dense_and_mask(self) -> tuple[Any, Any]:
        if self._arrays is None:
            assert self._found is not None
            indices, values, shape = self._found
            places = tuple(np.asarray(indices).T)
            mask = np.zeros(tuple(shape), bool)
            mask[places] = True
            if isinstance(values, jax.Array):
                dense: Any = jnp.zeros(mask.shape, values.dtype).at[places].set(values)
            else:
                filler = b"" if values.dtype == object else 0
                dense = np.full(mask.shape, filler, values.dtype)
                dense[places] = values
            self._arrays = host(dense), host(mask)
        return self._arrays

    def _parts(self) -> tuple[Any, Any, Any]:
        if self._found is None:
            dense, mask = self._dense_and_mask()
            if isinstance(mask, jax.core.Tracer):
                raise NotCompilable(
                    "How many values a sparse tensor has is not known in compiled "
                    "code. Received: a traced SparseTensor. Use "
                    "`tf.sparse.to_dense(x)`."
                )
            found = np.nonzero(np.asarray(mask))
            values = host(np.asarray(dense)[found])
            self._found = host(np.stack(found, axis=1)), values, self.dense_shape
        return self._found


class _SpecType(type):
    def __call__(cls, shape: Any = None, dtype: Any = np.float32) -> SparseTensor:
        dense = mirrax.TensorSpec(shape, dtype)
        return SparseTensor.of_dense(dense, mirrax.TensorSpec(shape, bool))

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, SparseTensor) and value.is_spec


class SparseTensorSpec(metaclass=_SpecType):
    """`tf.SparseTensorSpec`: a `SparseTensor` with specs in place of its arrays."""


def _require_index_per_value(
    indices: np.ndarray[Any, Any], found: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    """Raises unless there is an index, in the shape, for each of the found values."""
    if len(found) != 1 or indices.shape != (*found, len(shape)):
        raise ValueError(
            "A sparse tensor needs an index for each value, with a number for each "
            f"dimension. Received: indices of shape {indices.shape}, values of shape "
            f"{found}, dense_shape={shape}."
        )
    outside = ((indices < 0) | (indices >= np.asarray(shape, np.int64))).any(axis=1)
    if outside.any():
        first = int(outside.argmax())
        raise InvalidArgumentError(
            "Indices of a sparse tensor must be in its shape. Received: "
            f"indices[{first}] = {indices[first].tolist()} is out of bounds: need "
            f"0 <= index < {list(shape)}."
        )
    distinct, counts = np.unique(indices, axis=0, return_counts=True)
    if len(distinct) < len(indices):
        raise InvalidArgumentError(
            "Indices of a sparse tensor must differ. Received: index "
            f"{distinct[counts.argmax()].tolist()} is repeated. Combine its values "
            "first."
        )
