"""Copies values between devices and host memory."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax._jax.arrays import shards, uncommitted
from mirrax.options import VariableAggregation
from mirrax.values.layouts import join_parts
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable


def is_array(value: object) -> bool:
    """Returns whether `value` is an array of JAX or NumPy."""
    return isinstance(value, jax.Array | np.ndarray | np.generic)


def is_key_array(value: Any) -> bool:
    """Returns whether `value` is an array of random keys, saved as their data."""
    return isinstance(value, jax.Array) and jnp.issubdtype(
        value.dtype, jax.dtypes.prng_key
    )


def saved_dtype(value: Any) -> Any:
    """Returns the dtype in which `value` is saved."""
    return np.dtype(np.uint32) if is_key_array(value) else np.dtype(value.dtype)


def saved_shape(value: Any) -> tuple[int, ...]:
    """Returns the shape in which `value` is saved."""
    return (
        jax.random.key_data(value).shape if is_key_array(value) else tuple(value.shape)
    )


def to_host(value: Any) -> np.ndarray[Any, Any]:
    """Returns a copy in the memory of the host."""
    if is_key_array(value):
        value = jax.random.key_data(value)
    if isinstance(value, jax.Array):
        # All devices hold the same.
        value = shards(value)[0]
    return np.array(value)


def restore_like(old: Any, value: Any) -> Any:
    """Returns a saved value with the type and sharding of `old`."""
    if not is_array(old):
        return value if isinstance(old, str) else type(old)(value)
    if is_key_array(old):
        data = restore_like(jax.random.key_data(old), value)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(old))
    if isinstance(old, np.generic):
        return value[()]
    if isinstance(old, np.ndarray):
        return value.copy()
    if not old.committed:
        return uncommitted(_on_devices(value, old.sharding))
    return _on_devices(value, old.sharding)


def assign(variable: Variable, value: np.ndarray[Any, Any]) -> None:
    """Assigns the combined value of a variable; a SUM is divided among replicas."""
    is_sum = variable.aggregation is VariableAggregation.SUM
    if not isinstance(variable, SyncOnReadVariable) or not is_sum:
        variable.assign(value)
        return
    topology = variable.topology
    shares = _shares(value, topology.num_replicas)
    own = tuple(shares[index] for index in topology.local_replicas)
    variable.store(join_parts(own, topology))


def _shares(total: np.ndarray[Any, Any], count: int) -> list[np.ndarray[Any, Any]]:
    """Divides `total` into shares that are as equal as possible.

    >>> [int(share) for share in _shares(np.array(7), 2)]
    [4, 3]
    """
    if not np.issubdtype(total.dtype, np.integer):
        return [(total / count).astype(total.dtype)] * count
    base, rest = np.divmod(total, count)
    return [np.asarray(base + (index < rest), total.dtype) for index in range(count)]


def _on_devices(value: np.ndarray[Any, Any], sharding: Any) -> jax.Array:
    # Not `device_put`, which checks with other processes that the values are equal.
    return jax.make_array_from_callback(
        value.shape, sharding, lambda index: value[index].copy()
    )
