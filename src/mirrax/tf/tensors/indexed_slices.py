"""`tf.IndexedSlices`: some rows of a larger tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.tf.tensors.tensor import sizes, tensor
from mirrax.tf.tensors.tensor_shape import TensorShape


class IndexedSlices:
    """Rows of a larger tensor, with their indices.

    Gradients here are dense; this is for `Variable.scatter_add` and similar methods,
    and for `all_reduce`.

    >>> slices = IndexedSlices(jnp.array([[1.0], [2.0]]), [0, 2], dense_shape=[3, 1])
    >>> slices.to_dense().tolist()
    [[1.0], [0.0], [2.0]]
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values = tensor(values)
        self.indices = tensor(indices)
        # Known while a function is traced, if it was known before.
        with jax.ensure_compile_time_eval():
            self.dense_shape = None if dense_shape is None else tensor(dense_shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

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


def is_slices(value: Any) -> bool:
    return isinstance(value, IndexedSlices)


def map_slices(fn: Callable[[IndexedSlices], Any], tree: Any) -> Any:
    """Returns a structure with `fn` applied to the slices in it."""
    kinds = (IndexedSlices, mirrax.DistributedValues, mirrax.Variable)
    return jax.tree.map(
        lambda leaf: fn(leaf) if is_slices(leaf) else leaf,
        tree,
        is_leaf=lambda value: isinstance(value, kinds),
    )


def split_slices(slices: IndexedSlices) -> tuple[IndexedSlices, ...]:
    """Returns the slices of each replica, from slices with per-replica rows."""
    if not isinstance(slices.values, mirrax.PerReplica):
        return (slices,)
    rows = zip(slices.values.values, slices.indices.values, strict=True)
    return tuple(_make(slices.dense_shape, row) for row in rows)


def _make(dense_shape: Any, children: Any) -> IndexedSlices:
    # Without conversions: children can be anything inside a tree map.
    made = object.__new__(IndexedSlices)
    made.values, made.indices = children
    made.dense_shape = dense_shape
    return made


def _flatten(slices: IndexedSlices) -> Any:
    shape = slices.dense_shape
    return (slices.values, slices.indices), None if shape is None else sizes(shape)


def _unflatten(shape: Any, children: Any) -> IndexedSlices:
    return _make(None if shape is None else np.asarray(shape, np.int32), children)


jax.tree_util.register_pytree_node(IndexedSlices, _flatten, _unflatten)
