"""Converts elements of other libraries to structures of NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from mirrax.data.plan.columns import as_array
from mirrax.errors import InvalidArgumentError


def as_element(value: Any) -> Any:
    """Converts tensors to arrays.

    A list that contains arrays becomes a tuple, any other list becomes an array.

    >>> as_element({"label": [1, 2], "text": "a"})
    {'label': array([1, 2]), 'text': b'a'}
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping):
        return {key: as_element(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(as_element, value))
    if isinstance(value, tuple) or (isinstance(value, list) and _holds_arrays(value)):
        return tuple(map(as_element, value))
    return _array(value)


def _holds_arrays(value: list[Any]) -> bool:
    return any(
        _holds_arrays(item)
        if isinstance(item, list)
        else not isinstance(item, bool | int | float | complex | str | bytes)
        for item in value
    )


def _array(value: Any) -> Any:
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(value, torch)
    try:
        array = as_array(value)
    except ValueError as error:
        raise _not_an_array_error(value) from error
    # Strings are bytes objects; other objects are not supported.
    if array.dtype == object and not all(isinstance(x, bytes) for x in array.flat):
        raise _not_an_array_error(value)
    return array[()] if array.dtype == object and array.ndim == 0 else array


def _of_torch(tensor: Any, torch: Any) -> np.ndarray[Any, Any]:
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        # NumPy itself has no bfloat16.
        bits: Any = tensor.contiguous().view(torch.int16).numpy()
        return np.asarray(bits.view(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())


def _not_an_array_error(value: Any) -> InvalidArgumentError:
    received = repr(value)
    if len(received) > 200:
        received = f"{received[:200]}..."
    return InvalidArgumentError(
        "An element must consist of arrays, numbers and strings; rows of a list must "
        f"have the same length. Received: {type(value).__name__}, {received}. Convert "
        "it first, or pad the rows."
    )
