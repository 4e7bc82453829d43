"""Creation of tensors."""

from __future__ import annotations

import builtins
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.tf.dtypes import canonical, float32, limits, string
from mirrax.tf.namespaces.operations import Array, Values, operations
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import (
    Tensor,
    dtype_of_numbers,
    is_row_stand_in,
    is_traced,
    library_of,
    operands,
    sizes,
    string_tensor,
    tensor,
)

_PRIVATE = frozenset(globals())


def constant(value: Any, dtype: Any = None, shape: Any = None) -> Any:
    array = _known(value, dtype)
    if shape is None:
        return array
    wanted = sizes(shape)
    return (
        jnp.broadcast_to(array, wanted)
        if array.size == 1
        else jnp.reshape(array, wanted)
    )


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None) -> Any:
    return _known(value, dtype)


def _known(value: Any, dtype: Any) -> Any:
    """Returns a constant tensor, also while a function is traced.

    Integers stay concrete, because shapes may depend on them. Floats become part of the
    trace, so that a tape can watch them.
    """
    if is_traced(value):
        return tensor(value, dtype)
    with jax.ensure_compile_time_eval():
        array = tensor(value, dtype)
    return jnp.copy(array) if jnp.issubdtype(array.dtype, jnp.inexact) else array


def identity(input: Any) -> Any:
    if isinstance(input, bytes | str) or getattr(input, "dtype", None) == string:
        return string_tensor(input)
    # A copy, so that later assignments do not change it.
    return jnp.array(tensor(input))


def identity_n(input: Any) -> list[Any]:
    return [identity(value) for value in input]


def cast(x: Any, dtype: Any) -> Any:
    if isinstance(x, RaggedTensor):
        return x.map(lambda values: cast(values, dtype))
    if is_row_stand_in(x):
        return x.astype(dtype)
    if isinstance(x, jax.ShapeDtypeStruct):
        return x.update(dtype=canonical(dtype))
    return tensor(x).astype(canonical(dtype))


def saturate_cast(value: Array, dtype: Any) -> Any:
    least, greatest = limits(dtype).min, limits(dtype).max
    return jnp.clip(value, least, greatest).astype(canonical(dtype))


def bitcast(input: Array, type: Any) -> Any:
    return jax.lax.bitcast_convert_type(input, canonical(type))


def complex(real: Array, imag: Array) -> Any:
    return jax.lax.complex(real, imag)


def zeros(
    shape: Any, dtype: Any = float32, name: Any = None, layout: Any = None
) -> Any:
    if dtype == string:
        return string_tensor(np.full(sizes(shape), b"", object))
    return jnp.zeros(sizes(shape), canonical(dtype))


def ones(shape: Any, dtype: Any = float32, name: Any = None, layout: Any = None) -> Any:
    return jnp.ones(sizes(shape), canonical(dtype))


def zeros_like(
    input: Array, dtype: Any = None, name: Any = None, layout: Any = None
) -> Any:
    return jnp.zeros_like(input, canonical(dtype))


def ones_like(
    input: Array, dtype: Any = None, name: Any = None, layout: Any = None
) -> Any:
    return jnp.ones_like(input, canonical(dtype))


def fill(dims: Any, value: Array, name: Any = None, layout: Any = None) -> Any:
    return host(library_of(value).full(sizes(dims), value))


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None) -> Any:
    first, last = (0, start) if limit is None else (start, limit)
    kind = dtype_of_numbers([first, last, delta]) if dtype is None else dtype
    return jnp.arange(first, last, delta, dtype=canonical(kind))


def linspace(start: Any, stop: Any, num: Any, name: Any = None, axis: int = 0) -> Any:
    first, last = operands(start, stop)
    return jnp.linspace(first, last, num=int(num), axis=axis)


def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Any = None,
    dtype: Any = float32,
) -> Any:
    matrix = jnp.eye(num_rows, num_columns, dtype=canonical(dtype))
    return jnp.broadcast_to(matrix, (*sizes(batch_shape or ()), *matrix.shape))


def one_hot(
    indices: Values,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
) -> Any:
    on = 1 if on_value is None else on_value
    off = 0 if off_value is None else off_value
    given = (
        dtype or getattr(on_value, "dtype", None) or getattr(off_value, "dtype", None)
    )
    along = -1 if axis is None else axis
    is_hot = jax.nn.one_hot(indices, int(depth), dtype=bool, axis=along)
    if given is None:
        given = float32 if on_value is None and off_value is None else tensor(on).dtype
    return jnp.where(is_hot, on, off).astype(canonical(given))


def sequence_mask(lengths: Array, maxlen: Any = None, dtype: Any = np.bool_) -> Any:
    (size,) = sizes([jnp.max(lengths, initial=0) if maxlen is None else maxlen])
    return (jnp.arange(size) < lengths[..., None]).astype(canonical(dtype))


def meshgrid(*args: Any, indexing: str = "xy", name: Any = None) -> list[Any]:
    return list(jnp.meshgrid(*[tensor(value) for value in args], indexing=indexing))


def is_tensor(x: Any) -> builtins.bool:
    return isinstance(x, Tensor | mirrax.Variable)


def is_symbolic_tensor(x: Any) -> builtins.bool:
    return isinstance(x, jax.core.Tracer)


def get_static_value(tensor: Any, partial: Any = False) -> Any:
    """Returns the value as a NumPy array; None if it is traced."""
    return None if isinstance(tensor, jax.core.Tracer) else np.asarray(tensor)


operations(globals(), _PRIVATE)
