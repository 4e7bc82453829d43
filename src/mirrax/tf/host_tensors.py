"""Tensors in the memory of the host: elements of datasets, shapes, strings.

They are arrays of NumPy, which `jax.numpy`, `run` and `function` take as they are, so
nothing is moved to a device before it is needed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mirrax import TensorShape


class HostTensor(np.ndarray[Any, Any]):
    """An array of NumPy that answers what TensorFlow's programs ask of a tensor."""

    def numpy(self) -> Any:
        """The array as NumPy's own; of one string its bytes."""
        copy = np.array(self)
        return copy if self.ndim else copy[()]

    @property  # type: ignore[misc]
    def shape(self) -> TensorShape:
        return TensorShape(super().shape)

    def __repr__(self) -> str:
        kind = "string" if self.dtype.kind in "OSU" else self.dtype.name
        array = np.array(self)
        shown = repr(array[()]) if self.dtype.kind in "OSU" or self.ndim else str(array)
        return f"<tf.Tensor: shape={self.shape}, dtype={kind}, numpy={shown}>"

    def __str__(self) -> str:
        kind = "string" if self.dtype.kind in "OSU" else self.dtype.name
        return f"tf.Tensor({np.array(self)!s}, shape={self.shape}, dtype={kind})"

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Raises unless the tensor has this shape."""
        self.shape.assert_is_compatible_with(shape)

    def __getitem__(self, key: Any) -> Any:
        return host(super().__getitem__(key))

    def __iter__(self) -> Iterator[Any]:
        return map(host, super().__iter__())


def host(value: Any) -> Any:
    """Returns an array, a number or a string as a tensor; what else there is, as it is.

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
