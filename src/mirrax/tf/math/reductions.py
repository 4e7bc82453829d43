"""Reductions and cumulative functions along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from mirrax.tf.dtypes import canonical, int64, limits
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.host_tensors import HostTensor, host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import axes, conjugate, tensor

_PRIVATE = frozenset(globals())


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(input_tensor: Any, axis: Any = None, keepdims: Any = False) -> Any:
        where = {"axis": axes(axis), "keepdims": bool(keepdims)}
        if function is _product and _is_shape(input_tensor):
            # Known also while a function is traced, as a size must be.
            return host(np.prod(np.asarray(input_tensor), dtype=input_tensor.dtype))
        if isinstance(input_tensor, RaggedTensor):
            padded, mask = input_tensor.padded, input_tensor.mask
            given = range(padded.ndim) if axis is None else np.ravel(axis)
            if {0, 1}.isdisjoint(int(a) % padded.ndim for a in given):
                return input_tensor.map(lambda x: function(tensor(x), **where))
            where["where"] = mask.reshape(*mask.shape, *(1,) * (padded.ndim - 2))
            input_tensor = padded
        return function(tensor(input_tensor), **where)

    return reduce


def _is_shape(value: Any) -> bool:
    is_host = isinstance(value, HostTensor) and value.ndim == 1
    return is_host and value.dtype.kind in "iO"


def _sum(x: Any, **where: Any) -> Any:
    # The sum of booleans counts them.
    return jnp.sum(x, dtype=jnp.int32 if x.dtype == bool else x.dtype, **where)


def _product(x: Any, **where: Any) -> Any:
    return jnp.prod(x, dtype=x.dtype, **where)


def _mean(x: Any, **where: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.integer):
        # TensorFlow's mean of integers is truncated to an integer.
        total, count = _sum(x, **where), _sum(jnp.ones_like(x), **where)
        return jnp.trunc(total / jnp.maximum(count, 1)).astype(x.dtype)
    return jnp.mean(x, **where)


def _extreme(reduce: Callable[..., Any], limit: str) -> Callable[..., Any]:
    """Returns a maximum or minimum; of no values, it is the limit of the dtype."""

    def call(x: Any, **where: Any) -> Any:
        if x.size and "where" not in where:
            return reduce(x, **where)
        last = getattr(limits(x.dtype), limit)
        is_float = jnp.issubdtype(x.dtype, jnp.floating)
        return reduce(x, initial=last * jnp.inf if is_float else last, **where)

    return call


_max = _extreme(jnp.max, "min")
_min = _extreme(jnp.min, "max")


def _logsumexp(x: Any, **where: Any) -> Any:
    return special.logsumexp(x, **where) if x.size else _max(x, **where)


def _norm(x: Any, **where: Any) -> Any:
    return jnp.sqrt(jnp.sum(x * conjugate(x), **where))


reduce_all = _reduction(jnp.all)
reduce_any = _reduction(jnp.any)
reduce_euclidean_norm = _reduction(_norm)
reduce_logsumexp = _reduction(_logsumexp)
reduce_max = _reduction(_max)
reduce_mean = _reduction(_mean)
reduce_min = _reduction(_min)
reduce_prod = _reduction(_product)
reduce_std = _reduction(jnp.std)
reduce_sum = _reduction(_sum)
reduce_variance = _reduction(jnp.var)


def _index(function: Callable[..., Any]) -> Callable[..., Any]:
    def find(input: Array, axis: int | None = None, output_type: Any = int64) -> Any:
        return function(input, axis or 0).astype(canonical(output_type))

    return find


argmax = _index(jnp.argmax)
argmin = _index(jnp.argmin)


def count_nonzero(
    input: Array, axis: Any = None, keepdims: Any = None, dtype: Any = int64
) -> Any:
    is_nonzero = input != 0
    return jnp.sum(
        is_nonzero, axes(axis), keepdims=bool(keepdims), dtype=canonical(dtype)
    )


def zero_fraction(value: Array) -> Any:
    return jnp.mean((value == 0).astype(jnp.float32))


def _cumulative(
    function: Callable[..., Any], first: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Returns a cumulative function; exclusive, it starts with `first(dtype)`."""

    def scan(
        x: Array, axis: int = 0, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        axis %= x.ndim
        if reverse:
            x = jnp.flip(x, axis)
        if exclusive:
            start = jax.lax.slice_in_dim(x, 0, 1, axis=axis)
            rest = jax.lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=axis)
            start = jnp.full_like(start, first(x.dtype))
            x = jnp.concatenate([start, rest], axis)
        result = function(x, axis=axis).astype(x.dtype)
        return jnp.flip(result, axis) if reverse else result

    return scan


cumsum = _cumulative(jnp.cumsum, lambda _: 0)
cumprod = _cumulative(jnp.cumprod, lambda _: 1)
cumulative_logsumexp = _cumulative(
    jax.lax.cumlogsumexp, lambda dtype: limits(dtype).min
)


def bincount(
    arr: Array,
    weights: Array | None = None,
    minlength: int | None = None,
    maxlength: int | None = None,
    dtype: Any = jnp.int32,
    name: Any = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Any:
    array = arr.reshape(-1)
    size = max(int(jnp.max(array)) + 1 if array.size else 0, minlength or 0)
    size = size if maxlength is None else min(size, maxlength)
    given = None if weights is None else weights.reshape(-1)
    counts = jnp.bincount(array, given, length=size)
    if binary_output:
        counts = (counts != 0).astype(counts.dtype)
    return counts.astype(canonical(dtype)) if weights is None else counts


def confusion_matrix(
    labels: Array,
    predictions: Array,
    num_classes: int | None = None,
    weights: Array | None = None,
    dtype: Any = jnp.int32,
) -> Any:
    if num_classes is None:
        num_classes = int(jnp.maximum(labels.max(), predictions.max())) + 1
    added = 1 if weights is None else weights
    matrix = jnp.zeros((num_classes, num_classes), canonical(dtype))
    return matrix.at[labels, predictions].add(added)


def in_top_k(targets: Array, predictions: Array, k: int) -> Any:
    chosen = jnp.take_along_axis(predictions, targets[:, None], axis=1)
    return jnp.sum(predictions > chosen, axis=1) < k


def invert_permutation(x: Array) -> Any:
    return jnp.argsort(x).astype(x.dtype)


def is_non_decreasing(x: Array) -> Any:
    array = x.reshape(-1)
    return jnp.all(array[1:] >= array[:-1])


def is_strictly_increasing(x: Array) -> Any:
    array = x.reshape(-1)
    return jnp.all(array[1:] > array[:-1])


def lbeta(x: Array) -> Any:
    return jnp.sum(special.gammaln(x), -1) - special.gammaln(jnp.sum(x, -1))


def l2_normalize(x: Array, axis: Any = None, epsilon: float = 1e-12) -> Any:
    total = jnp.sum(jnp.real(x * conjugate(x)), axes(axis), keepdims=True)
    return x * jax.lax.rsqrt(jnp.maximum(total, epsilon))


operations(globals(), _PRIVATE)
