"""Collectives inside a program that is traced once for all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax

from mirrax._jax.jaxprs import identity_primitive
from mirrax.collectives import worker_costs
from mirrax.devices.topology import AXIS
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.values.array_like import is_prng_key

if TYPE_CHECKING:
    from mirrax.collectives.cross_device_ops import CrossDeviceOps

promise_p = identity_primitive("mirrored")


def promise_mirrored(value: jax.Array) -> jax.Array:
    """Returns `value`, marked as equal on all replicas."""
    return promise_p.bind(value)


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
    values = [_staged(summable(op, value)) for value in values]
    sums = ops.sum_over_replicas(values, num_replicas, options)
    sums = [promise_mirrored(total) for total in sums]
    if op is ReduceOp.SUM:
        return sums
    return [total / num_replicas for total in sums]


def _staged(value: jax.Array) -> jax.Array:
    # Of a constant, JAX computes the sum as a multiple; constants of workers differ.
    return value if isinstance(value, jax.core.Tracer) else jnp.copy(value)


def summable(op: ReduceOp, value: jax.Array) -> jax.Array:
    """Returns booleans as integers, and for a mean integers as floats."""
    if value.dtype == bool:
        value = value.astype(jnp.int32)
    is_integer = jnp.issubdtype(value.dtype, jnp.integer)
    return value / 1 if op is ReduceOp.MEAN and is_integer else value


def all_gather(values: Sequence[jax.Array], axis: int) -> list[jax.Array]:
    """Returns the values of all replicas concatenated along `axis`."""
    return [_gathered(value, axis) for value in values]


def _gathered(value: jax.Array, axis: int) -> jax.Array:
    if value.shape[axis] == 0:
        return promise_mirrored(value)  # XLA gathers nothing along an empty axis.
    if _should_exchange(value):
        return jnp.concatenate(stacked(value), axis)
    return lax.all_gather(value, AXIS, axis=axis, tiled=True)


def all_gather_uneven(value: jax.Array, axis: int, sizes: Sequence[int]) -> jax.Array:
    """Returns the values of all replicas concatenated along `axis`; sizes may differ.

    Pads the messages, and removes the padding from the result.
    """
    if len(set(sizes)) == 1:
        return _gathered(value, axis)
    axis %= value.ndim
    if is_prng_key(value):
        data = all_gather_uneven(jax.random.key_data(value), axis, sizes)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(value))
    shape = (*value.shape[:axis], max(sizes), *value.shape[axis + 1 :])
    gathered = stacked(fitted(value, shape))
    parts = [
        lax.slice_in_dim(gathered[index], 0, size, axis=axis)
        for index, size in enumerate(sizes)
    ]
    return jnp.concatenate(parts, axis)


def fitted(value: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns `value` cut or padded to a shape."""
    if value.shape == shape:
        return value
    first = (0,) * len(shape)
    value = lax.slice(value, first, tuple(map(min, value.shape, shape)))
    if value.shape == shape:
        return value
    if is_prng_key(value):
        return lax.dynamic_update_slice(jnp.zeros(shape, value.dtype), value, first)
    ends = [(0, size - own, 0) for own, size in zip(value.shape, shape, strict=True)]
    return lax.pad(value, jnp.zeros((), value.dtype), ends)


def stacked(value: jax.Array) -> jax.Array:
    """Returns the values of all replicas along a new first axis."""
    if _should_exchange(value):
        return promise_mirrored(exchange(value, lax.axis_size(AXIS)))
    return lax.all_gather(value, AXIS)


def _should_exchange(value: jax.Array) -> bool:
    if not is_between_cpus() or is_prng_key(value):
        return False
    return worker_costs.is_gathered_by_exchange(value, lax.axis_size(AXIS))


def is_between_cpus() -> bool:
    """Returns whether the replicas are CPU devices of several processes."""
    return jax.process_count() > 1 and jax.default_backend() == "cpu"


def exchange(value: jax.Array, num_replicas: int) -> jax.Array:
    """Returns the values of all replicas, stacked; each sends its own to all others."""
    copies = jnp.broadcast_to(value, (num_replicas, *value.shape))
    return lax.all_to_all(copies, AXIS, 0, 0)


def first(value: jax.Array) -> jax.Array:
    """Returns the first replica's value."""
    if is_prng_key(value):
        data = first(jax.random.key_data(value))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(value))
    return stacked(value)[0]
