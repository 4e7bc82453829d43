"""What all tables have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mirrax.tf.errors import NotCompilable
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import holds_strings, is_traced, string_tensor


class Table:
    """A mapping from keys to values, both on the host."""

    key_shape: tuple[int, ...] = ()
    value_shape: tuple[int, ...] = ()

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any) -> None:
        self.key_dtype, self.value_dtype = key_dtype, value_dtype
        self.default_value = hashable(default_value)
        self._values: dict[Any, Any] = {}

    def _value(self, key: Any) -> Any:
        """Returns the value of one key, which may be missing."""
        return self._values.get(key, self.default_value)

    def size(self, name: Any = None) -> Any:
        """Returns how many keys there are."""
        return host(np.int64(len(self._values)))

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """Returns the value of each key, or the default."""
        if isinstance(keys, RaggedTensor):
            return keys.map(self.lookup)
        given = self._keys_of(keys)
        found = [self._value(key) for key in self._each(given)]
        shape = (*self._outer(given), *self.value_shape)
        return host(np.array(found, self.value_dtype).reshape(shape))

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def export(self, name: Any = None) -> tuple[Any, Any]:
        """Returns all keys and all values."""
        count = len(self._values)
        keys = np.array([*self._values], self.key_dtype)
        values = np.array([*self._values.values()], self.value_dtype)
        return (
            host(keys.reshape(count, *self.key_shape)),
            host(values.reshape(count, *self.value_shape)),
        )

    def _keys_of(self, keys: Any) -> Any:
        require_values(keys)
        return string_tensor(keys) if holds_strings(keys) else np.asarray(keys)

    def _outer(self, keys: Any) -> tuple[int, ...]:
        """Returns the shape of the keys, without that of a single one."""
        return tuple(keys.shape)[: keys.ndim - len(self.key_shape)]

    def _each(self, keys: Any) -> Iterator[Any]:
        """Yields each key as a value that can be hashed."""
        for index in np.ndindex(*self._outer(keys)):
            yield hashable(keys[index])


def require_values(keys: Any) -> None:
    """Raises if the keys are not known yet."""
    if is_traced(keys):
        raise NotCompilable(
            "A table is read on the host. Received: traced keys, inside compiled "
            "code. Look them up in the input pipeline, with `Dataset.map`."
        )


def hashable(value: Any) -> Any:
    """Returns a key or a value as Python's; several numbers as a tuple of tuples.

    >>> hashable(np.array([1, 2])), hashable("a")
    ((1, 2), b'a')
    """
    if isinstance(value, str):
        return value.encode()
    plain = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(hashable, plain)) if isinstance(plain, list) else plain
