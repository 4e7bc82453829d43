"""Tensors and the functions of them, each one line over `jax.numpy`.

Tensors are `jax.Array`s. Importing this module lets every array answer `numpy()`, and
every device the questions one asks of the name that TensorFlow has in its place.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrax

Tensor = jax.Array

bfloat16 = jnp.dtype(jnp.bfloat16)
float16 = np.dtype("float16")
float32 = np.dtype("float32")
float64 = np.dtype("float64")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
uint8 = np.dtype("uint8")
uint16 = np.dtype("uint16")
uint32 = np.dtype("uint32")
uint64 = np.dtype("uint64")
string = np.dtype(object)
bool = np.dtype("bool")


def _dtype(dtype: Any) -> Any:
    return None if dtype is None else jax.dtypes.canonicalize_dtype(dtype)


def _tensor(value: Any) -> jax.Array:
    """Returns `value` as an array; what differs between replicas is none."""
    if isinstance(value, mirrax.PerReplica):
        raise ValueError(
            "A PerReplica is no tensor: it has a value for each replica. Received: "
            f"{value!r}. Use it inside `strategy.run`, or combine it with "
            "`strategy.reduce`."
        )
    return jnp.asarray(value)


def constant(value: Any, dtype: Any = None, shape: Any = None) -> jax.Array:
    array = convert_to_tensor(value, dtype)
    return array if shape is None else jnp.broadcast_to(array, tuple(shape))


def convert_to_tensor(value: Any, dtype: Any = None) -> jax.Array:
    array = _tensor(value)
    # With a dtype, so that it does not give way to that of what it is combined with.
    return jnp.asarray(array, _dtype(dtype or array.dtype))


def identity(value: Any) -> jax.Array:
    if isinstance(value, bytes | str) or getattr(value, "dtype", None) == string:
        return value  # type: ignore[no-any-return]
    # A copy, because a read of a variable must not change with it.
    return jnp.array(_tensor(value))


def cast(value: Any, dtype: Any) -> jax.Array:
    return _tensor(value).astype(_dtype(dtype))


def zeros(shape: Any, dtype: Any = float32) -> jax.Array:
    return jnp.zeros(shape, _dtype(dtype))


def ones(shape: Any, dtype: Any = float32) -> jax.Array:
    return jnp.ones(shape, _dtype(dtype))


def zeros_like(value: Any, dtype: Any = None) -> jax.Array:
    return jnp.zeros_like(_tensor(value), _dtype(dtype))


def ones_like(value: Any, dtype: Any = None) -> jax.Array:
    return jnp.ones_like(_tensor(value), _dtype(dtype))


def range(*limits: Any, dtype: Any = None) -> jax.Array:
    numbers: jax.Array = jnp.arange(*limits, dtype=_dtype(dtype))  # type: ignore[misc]
    return numbers


def stack(values: Any, axis: int = 0) -> jax.Array:
    return jnp.stack([_tensor(value) for value in values], axis)


def concat(values: Any, axis: int) -> jax.Array:
    return jnp.concatenate([_tensor(value) for value in values], axis)


def reshape(tensor: Any, shape: Any) -> jax.Array:
    return _tensor(tensor).reshape(tuple(shape))


def matmul(a: Any, b: Any) -> jax.Array:
    return _tensor(a) @ _tensor(b)


def square(x: Any) -> jax.Array:
    return jnp.square(_tensor(x))


def sqrt(x: Any) -> jax.Array:
    return jnp.sqrt(_tensor(x))


def reduce_sum(input_tensor: Any, axis: Any = None, keepdims: Any = False) -> jax.Array:
    return jnp.sum(_tensor(input_tensor), axis, keepdims=keepdims)


def reduce_mean(
    input_tensor: Any, axis: Any = None, keepdims: Any = False
) -> jax.Array:
    return jnp.mean(_tensor(input_tensor), axis, keepdims=keepdims)


def reduce_max(input_tensor: Any, axis: Any = None, keepdims: Any = False) -> jax.Array:
    return jnp.max(_tensor(input_tensor), axis, keepdims=keepdims)


def reduce_min(input_tensor: Any, axis: Any = None, keepdims: Any = False) -> jax.Array:
    return jnp.min(_tensor(input_tensor), axis, keepdims=keepdims)


def add_n(inputs: Any) -> jax.Array:
    return sum((_tensor(value) for value in inputs[1:]), start=_tensor(inputs[0]))


def _numpy(array: jax.Array) -> np.ndarray[Any, Any]:
    """The array in the memory of the host."""
    return np.array(array)


def _name_of(device: jax.Device) -> str:
    siblings = jax.local_devices(device.process_index, backend=device.platform)
    kind = {"cuda": "GPU", "rocm": "GPU"}.get(device.platform, device.platform.upper())
    return f"/job:localhost/replica:0/task:0/device:{kind}:{siblings.index(device)}"


def _string_method(name: str) -> Any:
    def method(device: jax.Device, *args: Any) -> Any:
        return getattr(_name_of(device), name)(*args)

    return method


jax.Array.numpy = _numpy  # type: ignore[attr-defined]
for _name in ("split", "startswith", "endswith", "lower", "upper", "__contains__"):
    setattr(jax.Device, _name, _string_method(_name))
