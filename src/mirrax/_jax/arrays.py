"""Takes arrays apart and puts them together faster than JAX's public functions do."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from mirrax._jax.jaxlib import put_copy
from mirrax._jax.private import ArrayImpl as ArrayImpl


def shards(array: jax.Array) -> Sequence[jax.Array]:
    """Returns the array that each local device holds, in mesh order.

    For a replicated array, `addressable_data(i)` returns that of the first device for
    every `i`.
    """
    if isinstance(array, jax.core.Tracer):
        raise TypeError(
            "A value that JAX is tracing lies on no devices yet. Received: a traced "
            f"array of shape {array.shape}. Do this outside of jit, grad and vmap, or "
            "inside `mirrax.function`."
        )
    if not isinstance(array, ArrayImpl):
        return [_as_key(array, part) for part in shards(jax.random.key_data(array))]
    if array._arrays is None:
        raise donated_error(f"such an array of shape {array.shape}")
    return array._arrays


def whole(array: jax.Array, index: int = 0) -> jax.Array:
    """Returns all of `array` on one local device, also if it is cut over devices.

    Args:
        index: The position of that device among those that hold parts of it here.
    """
    part = shards(array)[index]
    if part.shape == array.shape:
        return part
    if not array.is_fully_addressable:
        raise ValueError(
            "Only an array whose parts are all on this worker can be put together "
            f"here. Received: an array of shape {array.shape}, cut over the devices of "
            f"several workers by {array.sharding}. Replicate it on all workers first, "
            "as `jax.jit(lambda x: x, out_shardings=...)` does."
        )
    if not isinstance(array, ArrayImpl):
        return _as_key(array, whole(jax.random.key_data(array), index))
    # By the host, so that no trace records it.
    return copied(jax.device_get(array), part.device)


def donated_error(
    what: str,
    fix: str = "Use what that call returned, or donate a copy, `jnp.copy(x)`.",
) -> RuntimeError:
    """Returns the error for an array that was donated or deleted."""
    return RuntimeError(
        "This array was donated to an earlier call (`donate_argnums`), or deleted, and "
        f"can no longer be used. Received: {what}. {fix}"
    )


def uncommitted(array: jax.Array) -> jax.Array:
    """Returns the single-device `array`, not committed to its device.

    JAX refuses to mix arrays that are committed to different devices. Users expect to
    add the results of two replicas, so Mirrax returns uncommitted arrays.
    """
    if isinstance(array, jax.core.Tracer):
        return array
    if not isinstance(array, ArrayImpl):
        return _as_key(array, uncommitted(jax.random.key_data(array)))
    return view(array) if array.committed else array


def view(array: jax.Array) -> jax.Array:
    """Returns an uncommitted array in the memory of the single-device `array`."""
    if not isinstance(array, ArrayImpl):
        return _as_key(array, view(jax.random.key_data(array)))
    return ArrayImpl(
        array.aval, array.sharding, [array], committed=False, _skip_checks=True
    )


def assembled(
    shape: tuple[int, ...], sharding: NamedSharding, pieces: Sequence[jax.Array]
) -> jax.Array:
    """Returns the array made of `pieces`, one on each local device, in mesh order.

    Like `jax.make_array_from_single_device_arrays`, without its checks.
    """
    if not isinstance(pieces[0], ArrayImpl):
        return jax.make_array_from_single_device_arrays(shape, sharding, pieces)
    return ArrayImpl(
        _aval(shape, pieces[0].dtype),
        sharding,
        list(pieces),  # type: ignore[arg-type]
        committed=True,
        _skip_checks=True,
    )


def copied(value: np.ndarray[Any, Any], device: jax.Device) -> jax.Array:
    """Returns an uncommitted copy of `value` on `device`.

    Like `jax.device_put`, in a tenth of the time.
    """
    aval = _aval(value.shape, value.dtype)
    return put_copy(aval, _sharding(device), value, device)


_aval = functools.lru_cache(maxsize=1024)(jax.core.ShapedArray)


_sharding = functools.lru_cache(maxsize=1024)(jax.sharding.SingleDeviceSharding)


def _as_key(like: jax.Array, data: jax.Array) -> jax.Array:
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(like))


def is_stored(value: object) -> bool:
    """Returns whether `value` is an array in the memory of devices, not a tracer."""
    is_array = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    return is_array and hasattr(value, "sharding")
