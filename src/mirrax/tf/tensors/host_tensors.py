"""Tensors in host memory: elements of datasets, shapes, strings.

They are NumPy arrays, which `jax.numpy`, `run` and `function` accept, so nothing is
copied to a device before it is needed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mirrax.tf.tensors.tensor_shape import TensorShape


class HostTensor(np.ndarray[Any, Any]):
    """A NumPy array with the methods of a TensorFlow tensor."""

    def numpy(self) -> Any:
        """Returns a plain NumPy array; of a scalar, its value."""
        copy = np.array(self)
        return copy if self.ndim else copy[()]

    @property  # type: ignore[misc]
    def shape(self) -> TensorShape:
        return TensorShape(super().shape)

    def __repr__(self) -> str:
        kind = "string" if self.dtype.kind in "OSU" else self.dtype.name
        array = np.array(self)
        shown = repr(array[()]) if self.dtype.kind in "OSU" or self.ndim else str(array)
        return tensor_text(self.shape, kind, shown)

    def __str__(self) -> str:
        kind = "string" if self.dtype.kind in "OSU" else self.dtype.name
        return f"tf.Tensor({np.array(self)!s}, shape={self.shape}, dtype={kind})"

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec)

    @property
    def device(self) -> str:  # type: ignore[override]
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    backing_device = device

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Raises unless the tensor has this shape."""
        self.shape.assert_is_compatible_with(shape)

    def __eq__(self, other: Any) -> Any:
        return host(super().__eq__(self._comparable(other)))

    def __ne__(self, other: Any) -> Any:
        return host(super().__ne__(self._comparable(other)))

    __hash__ = None

    def __add__(self, other: Any) -> Any:
        return host(super().__add__(self._comparable(other)))

    def __radd__(self, other: Any) -> Any:
        return host(super().__radd__(self._comparable(other)))

    def _comparable(self, other: Any) -> Any:
        """Returns text as bytes, which tensors of strings hold."""
        if isinstance(other, str) and self.dtype.kind == "O":
            return other.encode()
        return other

    def __getitem__(self, key: Any) -> Any:
        return host(super().__getitem__(key))

    def __iter__(self) -> Iterator[Any]:
        return map(host, super().__iter__())


def host(value: Any) -> Any:
    """Returns an array, a number or bytes as a tensor, other values unchanged.

    >>> host(np.arange(3))[1].numpy()
    np.int64(1)
    >>> host(b"text").numpy()
    b'text'
    """
    if isinstance(value, np.ndarray):
        return value.view(HostTensor)
    if isinstance(value, np.generic | bool | int | float | complex):
        return np.asarray(value).view(HostTensor)
    if isinstance(value, bytes):
        return np.array(value, object).view(HostTensor)
    return value


def flat_array(values: Any, dtype: Any = None) -> Any:
    """Returns an array; text as bytes, Python numbers in 32 bits."""
    array = np.asarray(values, dtype)
    if array.dtype.kind in "SUO":
        texts = np.asarray(values, object)
        encoded = [x.encode() if isinstance(x, str) else x for x in texts.flat]
        strings = np.empty(array.size, object)
        strings[:] = encoded
        return strings.reshape(array.shape)
    if dtype is None and array.dtype.kind in "fi" and not hasattr(values, "dtype"):
        return array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
    return array


def tensor_text(shape: object, dtype: object, shown: str) -> str:
    """Returns the text of a tensor whose value shows as `shown`."""
    # Rows of a matrix stand below each other.
    line_break = "\n" if "\n" in shown else ""
    return f"<tf.Tensor: shape={shape}, dtype={dtype}, numpy={line_break}{shown}>"
