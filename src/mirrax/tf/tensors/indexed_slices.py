"""`tf.IndexedSlices`: some rows of a larger tensor."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.tensors.shapes import TensorShape
from mirrax.tf.tensors.tensor import sizes, tensor


class IndexedSlices:
    """Rows of a larger tensor, with their indices.

    Gradients here are dense; this is for `Variable.scatter_add` and similar methods,
    and for `all_reduce`. As an argument or a result of a function or a replica, it
    becomes the dense tensor.

    >>> slices = IndexedSlices(jnp.array([[1.0], [2.0]]), [0, 2], dense_shape=[3, 1])
    >>> slices.to_dense().tolist()
    [[1.0], [0.0], [2.0]]
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values = tensor(values)
        self.indices = tensor(indices)
        self.dense_shape = None if dense_shape is None else tensor(dense_shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype  # type: ignore[no-any-return]

    @property
    def shape(self) -> TensorShape:
        """The dense shape; None for an unknown size."""
        if self.dense_shape is not None:
            return TensorShape(sizes(self.dense_shape))
        return TensorShape([None, *self.values.shape[1:]])

    def to_dense(self) -> jax.Array:
        """Returns the dense tensor; rows with equal indices are summed."""
        if self.dense_shape is None:
            raise ValueError(
                "A conversion to a dense tensor needs its shape. Received: "
                "IndexedSlices without `dense_shape`. Pass `dense_shape=`."
            )
        zeros = jnp.zeros(sizes(self.dense_shape), self.dtype)
        return zeros.at[self.indices].add(self.values)

    def __jax_array__(self) -> jax.Array:
        return self.to_dense()

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        return (
            f"IndexedSlices(indices={self.indices}, values={self.values}, "
            f"dense_shape={self.dense_shape})"
        )


def _flatten(slices: IndexedSlices) -> Any:
    # Dense, because reductions must not sum the indices.
    return (slices.to_dense(),), None


def _unflatten(_: None, children: Any) -> Any:
    return children[0]


jax.tree_util.register_pytree_node(IndexedSlices, _flatten, _unflatten)
