"""Values of tensors as NumPy arrays, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from mirrax.tf.tensors.host_tensors import flat_array
from mirrax.tf.tensors.indexed_slices import IndexedSlices
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.sparse_tensors import SparseTensor


def evaluated(value: Any) -> Any:
    """Returns a structure with NumPy's values of its tensors; functions are called."""
    if isinstance(value, Mapping):
        values = {key: evaluated(part) for key, part in value.items()}
        return values if type(value) is dict else type(value)(values)  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(evaluated, value))
    if isinstance(value, list | tuple):
        return type(value)(map(evaluated, value))
    if isinstance(value, RaggedTensor | SparseTensor | IndexedSlices):
        return value
    if hasattr(value, "numpy"):
        return value.numpy()
    return evaluated(value()) if callable(value) else value


def as_array(value: Any) -> np.ndarray:
    """Returns a NumPy array; one of objects, if the rows have different lengths."""
    if isinstance(value, RaggedTensor):
        return np.array(value.to_list(), object)
    if isinstance(value, IndexedSlices):
        value = value.to_dense()
    found = evaluated(value)
    try:
        return np.asarray(found)
    except ValueError:
        return np.asarray(found, object)


def as_list(value: Any) -> Any:
    """Returns nested lists, as of a ragged tensor."""
    if isinstance(value, RaggedTensor):
        return value.to_list()
    if isinstance(value, list | tuple):
        return [as_list(part) for part in value]
    found = evaluated(value)
    return found.tolist() if isinstance(found, np.ndarray | np.generic) else found


def assert_equal(a: Any, b: Any, message: str = "") -> None:
    """Compares element by element; NaN equals NaN."""
    if isinstance(a, RaggedTensor) or isinstance(b, RaggedTensor):
        assert as_list(a) == as_list(b), f"{as_list(a)} != {as_list(b)} {message}"
        return
    first, second = _encoded(as_array(a)), _encoded(as_array(b))
    _assert_same_shape(first, second, message)
    np.testing.assert_array_equal(first, second, err_msg=message)


def assert_close(
    a: Any, b: Any, rtol: float, atol: float, message: str = "", path: str = ""
) -> None:
    """Compares structures; `path` is where in them `a` and `b` are."""
    if isinstance(a, RaggedTensor) or isinstance(b, RaggedTensor):
        a, b = as_list(a), as_list(b)
    a, b = (x._asdict() if hasattr(x, "_asdict") else x for x in (a, b))
    if isinstance(a, Mapping) != isinstance(b, Mapping):
        raise ValueError(f"Only one is a dict, at a{path}: {a!r}, {b!r}. {message}")
    if isinstance(a, Mapping):
        assert set(a) == set(b), f"Other keys, at a{path}: {a!r}, {b!r}. {message}"
        for key in a:
            assert_close(a[key], b[key], rtol, atol, message, f"{path}[{key!r}]")
        return
    first, second = as_array(a), as_array(b)
    if object in (first.dtype, second.dtype) and isinstance(a, list | tuple):
        if len(a) != len(b):
            raise ValueError(f"Other lengths, at a{path}: {a!r}, {b!r}. {message}")
        for index, (left, right) in enumerate(zip(a, b)):
            assert_close(left, right, rtol, atol, message, f"{path}[{index}]")
        return
    text = f"a{path} differs. {message}"
    _assert_same_shape(first, second, text)
    np.testing.assert_allclose(
        _computable(first), _computable(second), rtol, atol, err_msg=text
    )


def tolerances_of(dtype: Any) -> str:
    """Returns which tolerances apply to a type: "half", "bfloat16" or "float"."""
    if dtype == np.float16:
        return "half"
    if dtype == jnp.bfloat16:
        return "bfloat16"
    return "float" if dtype in (np.float32, np.complex64) else ""


def _encoded(array: np.ndarray) -> np.ndarray:
    """Returns text as bytes, which tensors of strings hold."""
    return flat_array(array) if array.dtype.kind == "U" else array


def _computable(array: np.ndarray) -> np.ndarray:
    """Returns JAX's small floats as 32-bit ones, with which NumPy computes."""
    is_small_float = array.dtype.kind == "V"
    return array.astype(np.float32) if is_small_float else array


def _assert_same_shape(a: np.ndarray, b: np.ndarray, message: str) -> None:
    assert a.shape == b.shape, (
        f"Shape mismatch: expected {a.shape}, got {b.shape}: {a}, {b}. {message}"
    )
