"""`tf.sparse`: tensors given by their nonzero values, which become dense ones."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.dtypes import limits
from mirrax.tf.errors import InvalidArgumentError
from mirrax.tf.namespaces.operations import operations
from mirrax.tf.tensors.host_tensors import flat_array
from mirrax.tf.tensors.sparse_tensors import SparseTensor
from mirrax.tf.tensors.tensor import axes, library_of, sizes, tensor


def from_dense(tensor: Any) -> SparseTensor:
    """Returns the values that are not zero."""
    array = flat_array(tensor)
    found = np.nonzero(array)
    return SparseTensor(np.stack(found, axis=1), array[found], array.shape)


def to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True
) -> Any:
    """Returns the dense tensor; dense tensors are returned as they are."""
    if not isinstance(sp_input, SparseTensor):
        return sp_input
    dense, mask = jax.tree.leaves(sp_input)
    library = library_of(dense)
    if default_value is None:
        return tensor(dense)
    return tensor(library.where(mask, dense, tensor(default_value)))


def reorder(sp_input: SparseTensor) -> SparseTensor:
    """Returns the values in the order of the rows."""
    return _on_both(lambda x: x, sp_input)


def reshape(sp_input: SparseTensor, shape: Any) -> SparseTensor:
    """Returns the values in another shape."""
    return _on_both(lambda x: x.reshape(sizes(shape)), sp_input)


def transpose(sp_input: SparseTensor, perm: Any = None) -> SparseTensor:
    """Returns the values with other dimensions first."""
    return _on_both(lambda x: x.transpose(perm), sp_input)


def expand_dims(sp_input: SparseTensor, axis: int | None = None) -> SparseTensor:
    """Returns the values with one more dimension, by default the last."""
    place = -1 if axis is None else axis
    return _on_both(lambda x: library_of(x).expand_dims(x, place), sp_input)


def concat(axis: int, sp_inputs: Any, *_: Any, **__: Any) -> SparseTensor:
    """Joins sparse tensors along an axis."""
    return _on_both(lambda *xs: library_of(*xs).concatenate(xs, axis), *sp_inputs)


def slice(sp_input: SparseTensor, start: Any, size: Any) -> SparseTensor:
    """Returns the part that begins at `start`; it may be smaller than `size`."""
    pairs = zip(sizes(start), sizes(size), strict=True)
    part = tuple(builtins.slice(first, first + count) for first, count in pairs)
    return _on_both(lambda x: x[part], sp_input)


def reduce_sum(
    sp_input: SparseTensor, axis: Any = None, keepdims: bool = False, **_: Any
) -> Any:
    """Returns the sum of the values, as a dense tensor."""
    return jnp.sum(tensor(sp_input.dense), axes(axis), keepdims=bool(keepdims))


def reduce_max(
    sp_input: SparseTensor, axis: Any = None, keepdims: bool = False, **_: Any
) -> Any:
    """Returns the largest of the values, as a dense tensor; 0 where there are none."""
    dense, mask = map(tensor, jax.tree.leaves(sp_input))
    least = limits(dense.dtype).min
    over = {"axis": axes(axis), "keepdims": bool(keepdims)}
    largest = jnp.max(jnp.where(mask, dense, least), **over)
    return jnp.where(jnp.any(mask, **over), largest, 0)


def add(a: Any, b: Any, threshold: Any = 0) -> Any:
    """Returns a sum: a sparse tensor, if both are; else a dense one."""
    if not (isinstance(a, SparseTensor) and isinstance(b, SparseTensor)):
        return to_dense(a) + to_dense(b)
    (left, in_left), (right, in_right) = map(jax.tree.leaves, (a, b))
    made = left + right
    is_kept = (in_left | in_right) & (abs(made) >= threshold)
    return SparseTensor.of_dense(made, is_kept)


def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> SparseTensor:
    """Returns a function of the values of sparse tensors, at the same indices."""
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, SparseTensor)]
    if not given or any(not np.array_equal(x.indices, given[0].indices) for x in given):
        raise InvalidArgumentError(
            "`tf.sparse.map_values` takes sparse tensors, all with the same indices. "
            f"Received: {len(given)} of them. Use `tf.sparse.to_dense(x)`."
        )

    def values(x: Any) -> Any:
        return x.values if isinstance(x, SparseTensor) else x

    kwargs = {name: values(x) for name, x in kwargs.items()}
    made = op(*map(values, args), **kwargs)
    return SparseTensor(given[0].indices, made, given[0].dense_shape)


def _on_both(function: Callable[..., Any], *given: SparseTensor) -> SparseTensor:
    """Returns a function of the dense tensors and of the masks, as a sparse tensor."""
    return jax.tree.map(function, *given)


def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False
) -> Any:
    """Returns a matrix product, computed with the dense matrix."""
    left, right = tensor(to_dense(sp_a)), tensor(to_dense(b))
    return (left.T if adjoint_a else left) @ (right.T if adjoint_b else right)


operations(globals())
