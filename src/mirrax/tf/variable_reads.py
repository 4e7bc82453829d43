"""The results of reading a variable: arrays that know their variable."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.errors import InvalidArgumentError


class VariableRead:
    """An array that was read from a variable; behaves like the array it wraps.

    Args:
        array: The array.
        variable: The variable.
    """

    __slots__ = ("_array", "_variable")
    # With a NumPy array on the left, our reflected operator is called.
    __array_priority__ = 100
    __hash__ = object.__hash__

    def __init__(self, array: jax.Array, variable: Any) -> None:
        self._array = array
        self._variable = variable

    def __jax_array__(self) -> jax.Array:
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._array, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._array, name)

    def __getitem__(self, key: Any) -> jax.Array:
        return self._array[key]

    def __iter__(self) -> Iterator[jax.Array]:
        return iter(self._array)

    def __len__(self) -> int:
        return len(self._array)

    def __bool__(self) -> bool:
        return bool(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __index__(self) -> int:
        return operator.index(self._array)

    def __format__(self, format_spec: str) -> str:
        return format(self._array, format_spec)

    def __round__(self, ndigits: int | None = None) -> jax.Array:
        return round(self._array, ndigits)

    def __repr__(self) -> str:
        return repr(self._array)

    def __str__(self) -> str:
        return str(self._array)

    def __neg__(self) -> jax.Array:
        return -self._array

    def __pos__(self) -> jax.Array:
        return self._array

    def __abs__(self) -> jax.Array:
        return abs(self._array)

    def __invert__(self) -> jax.Array:
        return ~self._array


class VariableValue(VariableRead):
    """`variable.value`, which can also be called: `variable.value()`."""

    __slots__ = ()

    def __call__(self, do_not_use: Any = None) -> jax.Array:
        return self._array


class VariableSlice(VariableRead):
    """`variable[key]`: a slice of a variable, with `assign`.

    Args:
        array: The array.
        variable: The variable.
        key: The index of the slice.
    """

    __slots__ = ("_key",)

    def __init__(self, array: jax.Array, variable: Any, key: Any) -> None:
        super().__init__(array, variable)
        self._key = key

    def assign(self, value: Any, name: Any = None, read_value: bool = True) -> Any:
        """Assigns to this slice; returns the result of `variable.assign`."""
        part = self._variable.read_value().at[self._key]
        return self._variable.assign(part.set(self._fitting(value)))

    def _fitting(self, value: Any) -> Any:
        array, shape = jnp.asarray(value), self._array.shape
        try:
            fits = np.broadcast_shapes(array.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise InvalidArgumentError(
                "A value assigned to a slice of a variable must have its shape. "
                f"Received: shape {array.shape} for a slice of shape {shape} of "
                f"'{self._variable.name}'. Reshape it first."
            )
        return array.astype(self._array.dtype)


def _plain(value: Any) -> Any:
    is_array = isinstance(value, jax.Array) or not hasattr(value, "__jax_array__")
    return value if is_array else value.__jax_array__()


def _add_operator(name: str) -> None:
    function = getattr(operator, name)

    def forward(self: VariableRead, other: Any) -> Any:
        return function(self.__jax_array__(), _plain(other))

    def reflected(self: VariableRead, other: Any) -> Any:
        return function(jnp.asarray(_plain(other)), self.__jax_array__())

    setattr(VariableRead, name, forward)
    setattr(VariableRead, f"__r{name[2:]}", reflected)


def _flatten(read: VariableRead) -> tuple[tuple[jax.Array], None]:
    return (read.__jax_array__(),), None


def _unflatten(_: None, children: Any) -> Any:
    return children[0]


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    _add_operator(f"__{_name}__")
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _add_operator(f"__{_name}__")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _add_operator(f"__{_name}__")
for _kind in (VariableValue, VariableSlice):
    # JAX functions take them as the arrays they wrap.
    jax.tree_util.register_pytree_node(_kind, _flatten, _unflatten)
