"""Objects that can be used like arrays."""

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
    """An object that stands for an array: in expressions, in `jnp` and in `numpy`.

    Variables are such objects. A class of yours needs only `__jax_array__`:

    >>> class Halves(mirrax.ArrayLike):
    ...     def __jax_array__(self):
    ...         return jnp.full(2, 0.5)
    >>> (Halves() * 3).tolist()
    [1.5, 1.5]
    """

    __slots__ = ()

    # Makes a NumPy array on the left defer to our reflected operators.
    __array_priority__ = 100

    @abc.abstractmethod
    def __jax_array__(self) -> jax.Array:
        """The array."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the array in host memory."""
        return np.array(self.__jax_array__())

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self.__jax_array__().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.__jax_array__().dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))

    def astype(self, dtype: Any) -> jax.Array:
        """Returns the array with another dtype."""
        return self.__jax_array__().astype(dtype)

    def reshape(self, *shape: Any) -> jax.Array:
        """Returns the array with other sizes."""
        return self.__jax_array__().reshape(*shape)

    @property
    def T(self) -> jax.Array:  # noqa: N802 - the name that arrays give it
        """The transposed array."""
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
    """Returns the array that `value` stands for; anything else unchanged."""
    return value.__jax_array__() if isinstance(value, ArrayLike) else value


def as_arrays(values: Sequence[Any]) -> list[jax.Array]:
    """Returns numbers, variables and arrays as arrays."""
    return [v if isinstance(v, jax.Array) else jnp.asarray(as_array(v)) for v in values]


_NO_NUMBERS = "OSUMm"
"""The kinds of dtypes of objects, strings and dates."""


def as_combinable(values: Sequence[Any]) -> list[jax.Array]:
    """Returns values to be combined over replicas as arrays; raises for strings."""
    for value in values:
        is_on_host = isinstance(value, str | bytes | np.ndarray | np.generic)
        if is_on_host and np.asarray(value).dtype.kind in _NO_NUMBERS:
            raise TypeError(
                "Replicas combine numbers. Received: strings, dates or other objects, "
                f"{value!r}. Give numbers that stand for them, or take the parts with "
                "`strategy.experimental_local_results(value)`."
            )
    return as_arrays(values)


def is_array(value: object) -> bool:
    """Returns whether `value` is an array of JAX or NumPy."""
    return isinstance(value, jax.Array | np.ndarray | np.generic)


def is_prng_key(array: Any) -> bool:
    """Returns whether `array` holds random keys."""
    dtype = array.dtype
    # Dtypes of keys are not NumPy's, and `issubdtype` is slow.
    if isinstance(dtype, np.dtype):
        return False
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """Returns `value` in host memory; of random keys, their data."""
    if isinstance(value, jax.Array) and is_prng_key(value):
        # Evaluated also inside a trace, for keys that a traced function captures.
        with evaluated():
            return np.asarray(jax.random.key_data(value))
    return np.asarray(value)


def without_weak_type(array: jax.Array) -> jax.Array:
    """Returns `array` without the weak type that JAX gives to Python numbers."""
    if not array.aval.weak_type:
        return array
    return jax.lax.convert_element_type(array, array.dtype)


def _define(name: str, is_reflected: bool) -> None:
    function = getattr(operator, name)

    def forward(self: ArrayLike, other: Any) -> Any:
        return function(self.__jax_array__(), as_array(other))

    def reflected(self: ArrayLike, other: Any) -> Any:
        return function(jnp.asarray(as_array(other)), self.__jax_array__())

    setattr(ArrayLike, name, forward)
    if is_reflected:
        setattr(ArrayLike, f"__r{name[2:]}", reflected)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    _define(f"__{_name}__", is_reflected=True)
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _define(f"__{_name}__", is_reflected=True)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _define(f"__{_name}__", is_reflected=False)


def is_array_like(value: object) -> bool:
    """Returns whether JAX can compute with `value`."""
    return is_array(value) or isinstance(value, int | float | complex)
