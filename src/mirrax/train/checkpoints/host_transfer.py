"""Copies values between devices and host memory."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mirrax._jax.arrays import copied, donated_error, is_stored, uncommitted, whole
from mirrax.cluster import current_job
from mirrax.collectives.shard_layout import ShardLayout, is_cut
from mirrax.context import stack
from mirrax.devices.topology import AXIS, Topology
from mirrax.options import VariableAggregation
from mirrax.values.array_like import is_array, is_prng_key
from mirrax.values.layouts import join_parts, replicate_parts
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable


def to_host(value: Any) -> np.ndarray[Any, Any]:
    """Returns an array in the memory of the host, perhaps its own."""
    if is_array(value) and is_prng_key(value):
        value = jax.random.key_data(value)
    if is_stored(value) and value.is_deleted():
        raise donated_error(f"an array of shape {value.shape} to save")
    if is_stored(value) and not value.is_fully_addressable:
        value = _gathered(value)
    return np.asarray(value)


def copy_array(
    array: np.ndarray[Any, Any], buffer: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any]:
    """Returns a copy of `array`, in the memory of `buffer` if it fits.

    Fresh memory takes several times longer, because the system must provide the pages.
    """
    if buffer is None or (buffer.shape, buffer.dtype) != (array.shape, array.dtype):
        return np.array(array)
    np.copyto(buffer, array)
    return buffer


def restore_like(old: Any, value: Any) -> Any:
    """Returns a saved value with the type and sharding of `old`."""
    if not is_array(old):
        return value if isinstance(old, str) else type(old)(value)
    if is_prng_key(old):
        data = restore_like(jax.random.key_data(old), value)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(old))
    if isinstance(old, np.generic):
        return value[()]
    if isinstance(old, np.ndarray):
        return value.copy()
    if not old.committed:
        return uncommitted(_on_devices(value, old.sharding))
    return _on_devices(value, old.sharding)


def assign(variable: Variable, value: Any) -> None:
    """Assigns the combined value of a variable; a SUM is divided among replicas.

    Args:
        value: An array of its shape and dtype, equal on all workers.
    """
    is_sum = variable.aggregation is VariableAggregation.SUM
    if isinstance(variable, SyncOnReadVariable) and is_sum:
        topology = variable.topology
        shares = _shares(value, topology.num_replicas)
        own = tuple(shares[index] for index in topology.local_replicas)
        variable.store(join_parts(own, topology))
    elif (
        type(variable) in (Variable, MirroredVariable)
        and isinstance(value, np.ndarray)
        and stack.overlay() is None
    ):
        # Without the checks of `assign`, which take longer than the copies.
        variable.store(_placed_for(variable, value))
    else:
        variable.assign(value)


def _placed_for(variable: Variable, value: np.ndarray[Any, Any]) -> jax.Array:
    if isinstance(variable, MirroredVariable) and not variable.topology.is_single:
        topology = variable.topology
        parts = [copied(value, device) for device in topology.local_devices]
        return replicate_parts(parts, topology)
    devices: Any = variable.stored.sharding.addressable_devices
    return copied(value, min(devices, key=lambda device: device.id))


def _gathered(array: jax.Array) -> Any:
    """Returns an array over several workers whole; all of them call this together."""
    job = current_job()
    sharding: Any = array.sharding
    if job is None or not is_cut(sharding):
        return whole(array)
    topology = Topology(tuple(sharding.mesh.devices.flat), job=job)
    if topology.mesh != sharding.mesh:
        return whole(array)
    axis = sharding.spec.index(AXIS)
    layout = ShardLayout(array.shape, axis, topology.num_replicas)
    return layout.load(array, topology, "save a sharded array")


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
