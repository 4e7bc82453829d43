"""What makes an object of ours usable like an array."""

from __future__ import annotations

import abc
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax._jax.traces import evaluated


class ArrayLike(abc.ABC):
    """An object that stands for an array: in expressions, in `jnp` and in `numpy`."""

    __slots__ = ()

    # So that an array of NumPy's on the left leaves the operation to us.
    __array_priority__ = 100

    @abc.abstractmethod
    def __jax_array__(self) -> jax.Array:
        """The array."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the array in the memory of the host."""
        return np.array(self.__jax_array__())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.__jax_array__().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.__jax_array__().dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def astype(self, dtype: Any) -> jax.Array:
        return self.__jax_array__().astype(dtype)

    def reshape(self, *shape: Any) -> jax.Array:
        return self.__jax_array__().reshape(*shape)

    @property
    def T(self) -> jax.Array:  # noqa: N802 - the name that arrays give it
        return self.__jax_array__().T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.__jax_array__(), dtype=dtype)

    def __getitem__(self, key: Any) -> jax.Array:
        return self.__jax_array__()[key]

    def __iter__(self) -> Any:
        return iter(self.__jax_array__())

    def __len__(self) -> int:
        return len(self.__jax_array__())

    def __bool__(self) -> bool:
        return bool(self.__jax_array__())

    def __int__(self) -> int:
        return int(self.__jax_array__())

    def __float__(self) -> float:
        return float(self.__jax_array__())

    def __format__(self, format_spec: str) -> str:
        return format(self.__jax_array__(), format_spec) if format_spec else str(self)

    def __round__(self, ndigits: int | None = None) -> jax.Array:
        return round(self.__jax_array__(), ndigits)

    def __index__(self) -> int:
        return operator.index(self.__jax_array__())

    def __neg__(self) -> jax.Array:
        return -self.__jax_array__()

    def __pos__(self) -> jax.Array:
        return self.__jax_array__()

    def __abs__(self) -> jax.Array:
        return abs(self.__jax_array__())

    def __invert__(self) -> jax.Array:
        return ~self.__jax_array__()

    __hash__ = object.__hash__


def as_array(value: Any) -> Any:
    """Returns the array that `value` stands for; anything else as it is."""
    return value.__jax_array__() if isinstance(value, ArrayLike) else value


def as_arrays(values: Sequence[Any]) -> list[jax.Array]:
    """Returns numbers, variables and the like as arrays."""
    return [v if isinstance(v, jax.Array) else jnp.asarray(as_array(v)) for v in values]


def is_key(array: Any) -> bool:
    """Returns whether `array` holds random keys, which are no numbers."""
    return bool(jnp.issubdtype(array.dtype, jax.dtypes.prng_key))


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """Returns `value` in the memory of the host; of random keys, their data."""
    if isinstance(value, jax.Array) and is_key(value):
        # Also a key that a program which is traced closes over has data.
        with evaluated():
            return np.asarray(jax.random.key_data(value))
    return np.asarray(value)


def strong(array: jax.Array) -> jax.Array:
    """Returns `array` without the weak type that JAX gives to Python numbers."""
    if not array.aval.weak_type:
        return array
    return jax.lax.convert_element_type(array, array.dtype)


def _operator(name: str) -> None:
    function = getattr(operator, name)

    def forward(self: ArrayLike, other: Any) -> Any:
        return function(self.__jax_array__(), as_array(other))

    def reflected(self: ArrayLike, other: Any) -> Any:
        return function(jnp.asarray(as_array(other)), self.__jax_array__())

    setattr(ArrayLike, name, forward)
    setattr(ArrayLike, f"__r{name[2:]}", reflected)


for _name in (
    "__add__",
    "__sub__",
    "__mul__",
    "__truediv__",
    "__floordiv__",
    "__mod__",
    "__pow__",
    "__matmul__",
    "__and__",
    "__or__",
    "__xor__",
    "__lshift__",
    "__rshift__",
):
    _operator(_name)


def _comparison(name: str) -> None:
    function = getattr(operator, name)

    def compare(self: ArrayLike, other: Any) -> Any:
        return function(self.__jax_array__(), as_array(other))

    setattr(ArrayLike, name, compare)


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    _comparison(_name)


def is_array_like(value: object) -> bool:
    """Returns whether JAX can compute with `value`."""
    return isinstance(
        value, jax.Array | np.ndarray | np.generic | int | float | complex
    )
