"""Shapes in a function whose signature leaves sizes open: tensors and numbers at once.

There a size is a symbol of JAX. As an element of a tensor it would be a value that is
known when the program runs, and could be no size of another tensor. So a shape keeps
its symbols, and becomes a tensor where one is needed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from mirrax import TensorShape
from mirrax.tf.host_tensors import host


def is_open(size: Any) -> bool:
    """Returns whether a size may be another one in another call."""
    is_number = isinstance(size, int | np.integer | np.ndarray | jax.Array)
    return not is_number and jax.export.is_symbolic_dim(size)


class OpenShape:
    """A tensor of sizes, of which some are open.

    Args:
        sizes: The sizes.
        dtype: The type of the tensor.
    """

    def __init__(self, sizes: Sequence[Any], dtype: Any) -> None:
        self._sizes = tuple(sizes)
        self.dtype = np.dtype(dtype)

    def __jax_array__(self) -> jax.Array:
        return jnp.array(self._sizes, self.dtype)

    @property
    def shape(self) -> TensorShape:
        return TensorShape((len(self._sizes),))

    @property
    def ndim(self) -> int:
        return 1

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return OpenShape(self._sizes[key], self.dtype)
        if isinstance(key, jax.core.Tracer):
            return self.__jax_array__()[key]
        size = self._sizes[key]
        return size if is_open(size) else host(self.dtype.type(size))


def _define(name: str) -> None:
    function = getattr(operator, name)

    def forward(self: OpenShape, other: Any) -> Any:
        return function(self.__jax_array__(), jnp.asarray(other))

    def reflected(self: OpenShape, other: Any) -> Any:
        return function(jnp.asarray(other), self.__jax_array__())

    setattr(OpenShape, f"__{name}__", forward)
    setattr(OpenShape, f"__r{name}__", reflected)


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod"):
    _define(_name)
