"""Collectives inside a program that is traced once for all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching, mlir

from mirrax._jax.jaxprs import Primitive
from mirrax.devices.topology import AXIS
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.values.array_like import is_key

promise_p = Primitive("mirrored")
promise_p.def_impl(lambda value: value)
promise_p.def_abstract_eval(lambda aval: aval)
mlir.register_lowering(promise_p, lambda _, value: [value])
ad.deflinear2(promise_p, lambda cotangent, _: [cotangent])


def _batch(values: Any, dims: Any) -> Any:
    return promise_p.bind(*values), dims[0]


batching.primitive_batchers[promise_p] = _batch


def promise_mirrored(value: jax.Array) -> jax.Array:
    """Returns `value`, marked as equal on all replicas."""
    return promise_p.bind(value)  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from mirrax.collectives.cross_device_ops import CrossDeviceOps


def all_reduce(
    op: ReduceOp,
    values: Sequence[jax.Array],
    num_replicas: int,
    ops: CrossDeviceOps,
    options: CommunicationOptions,
) -> list[jax.Array]:
    """Returns sums or means over the replicas; means of integers are floats."""
    if not values:
        return []
    values = [_staged(countable(op, value)) for value in values]
    sums = ops.sum_over_replicas(values, num_replicas, options)
    sums = [promise_mirrored(total) for total in sums]
    if op is ReduceOp.SUM:
        return sums
    return [total / num_replicas for total in sums]


def _staged(value: jax.Array) -> jax.Array:
    """Returns a constant as a value of the program, as which it may differ.

    Of a constant, JAX takes the sum to be a multiple.
    """
    return value if isinstance(value, jax.core.Tracer) else jnp.copy(value)


def countable(op: ReduceOp, value: jax.Array) -> jax.Array:
    """Returns a value that can be added up: numbers, and floats if it is for a mean."""
    if value.dtype == bool:
        value = value.astype(jnp.int32)
    is_integer = jnp.issubdtype(value.dtype, jnp.integer)
    return value / 1 if op is ReduceOp.MEAN and is_integer else value


def all_gather(values: Sequence[jax.Array], axis: int) -> list[jax.Array]:
    """Returns the values of all replicas joined along `axis`."""
    return [lax.all_gather(value, AXIS, axis=axis, tiled=True) for value in values]


def all_gather_uneven(value: jax.Array, axis: int, sizes: Sequence[int]) -> jax.Array:
    """Returns the values of all replicas joined along `axis`, where sizes differ.

    Only the message is padded: what is filled in is cut off again.
    """
    axis %= value.ndim
    widths = [(0, 0)] * value.ndim
    widths[axis] = (0, max(sizes) - value.shape[axis])
    gathered = lax.all_gather(jnp.pad(value, widths), AXIS)
    parts = [
        lax.slice_in_dim(gathered[index], 0, size, axis=axis)
        for index, size in enumerate(sizes)
    ]
    return jnp.concatenate(parts, axis)


def first(value: jax.Array) -> jax.Array:
    """Returns the first replica's value."""
    if is_key(value):
        data = first(jax.random.key_data(value))
        key: jax.Array = jax.random.wrap_key_data(data, impl=jax.random.key_impl(value))
        return key
    gathered: jax.Array = lax.all_gather(value, AXIS)
    return gathered[0]
