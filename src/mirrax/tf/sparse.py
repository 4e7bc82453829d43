"""`tf.sparse`: tensors given by their nonzero values, which become dense ones."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from mirrax.tf.missing_names import names_of
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.tensor import sizes, tensor
from mirrax.tf.tensors.tensor_shape import TensorShape


class SparseTensor:
    """`tf.SparseTensor`, on the host.

    Args:
        indices: The positions of the values: a row of integers for each.
        values: The values.
        dense_shape: The shape of the dense tensor.
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.indices = host(np.asarray(indices, np.int64))
        self.values = tensor(values)
        self.dense_shape = host(np.asarray(sizes(dense_shape), np.int64))

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self.dense_shape.tolist())

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def __repr__(self) -> str:
        return f"SparseTensor({self.indices}, {self.values}, {self.shape})"


def from_dense(tensor: Any, name: Any = None) -> SparseTensor:
    """Returns the values that are not zero."""
    array = np.asarray(tensor)
    found = np.nonzero(array)
    return SparseTensor(np.stack(found, axis=1), array[found], array.shape)


def to_dense(
    sp_input: Any,
    default_value: Any = None,
    validate_indices: bool = True,
    name: Any = None,
) -> Any:
    """Returns the dense tensor.

    A feature of `tf.io.VarLenFeature` is dense and returned as it is.
    """
    if not isinstance(sp_input, SparseTensor):
        return sp_input
    filler = 0 if default_value is None else default_value
    dense = jnp.full(sizes(sp_input.dense_shape), filler, sp_input.dtype)
    return dense.at[tuple(np.asarray(sp_input.indices).T)].set(sp_input.values)


def sparse_dense_matmul(
    sp_a: Any,
    b: Any,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: Any = None,
) -> Any:
    """Returns a matrix product, computed with the dense matrix."""
    left, right = tensor(to_dense(sp_a)), tensor(to_dense(b))
    return (left.T if adjoint_a else left) @ (right.T if adjoint_b else right)


__getattr__ = names_of("tf.sparse")
