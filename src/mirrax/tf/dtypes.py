"""`tf.dtypes`: NumPy's dtypes."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.namespaces.exports import export
from mirrax.tf.namespaces.missing_names import names_of


def canonical(dtype: Any) -> Any:
    """Returns the dtype that JAX uses for `dtype`: 32 bits, unless x64 is enabled."""
    return None if dtype is None else jax.dtypes.canonicalize_dtype(dtype)


def limits(dtype: Any) -> Any:
    """Returns `jnp.iinfo` or `jnp.finfo` of a dtype."""
    is_integer = jnp.issubdtype(dtype, jnp.integer)
    return jnp.iinfo(dtype) if is_integer else jnp.finfo(dtype)  # type: ignore[no-untyped-call]


_PRIVATE = frozenset(globals())

DType = np.dtype

bfloat16 = jnp.dtype(jnp.bfloat16)
float16 = half = np.dtype("float16")
float32 = np.dtype("float32")
float64 = double = np.dtype("float64")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
uint8 = np.dtype("uint8")
uint16 = np.dtype("uint16")
uint32 = np.dtype("uint32")
uint64 = np.dtype("uint64")
complex64 = np.dtype("complex64")
complex128 = np.dtype("complex128")
string = np.dtype(object)
bool = np.dtype("bool")


def as_dtype(type_value: Any) -> np.dtype[Any]:
    """Returns the dtype of a name or a type."""
    if type_value in ("string", str, bytes):
        return string
    return np.dtype("bfloat16" if type_value == "bfloat16" else type_value)


export(globals(), _PRIVATE)

_missing = names_of("tf.dtypes")


def __getattr__(name: str) -> Any:
    if name in ("cast", "complex", "saturate_cast"):
        # Imported late: it imports this module.
        return getattr(importlib.import_module("mirrax.tf.tensors.creation"), name)
    return _missing(name)
