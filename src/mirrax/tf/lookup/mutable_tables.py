"""`MutableHashTable` and `DenseHashTable`: tables that change."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.errors import InvalidArgumentError
from mirrax.tf.dtypes import string
from mirrax.tf.lookup.initializers import array_of
from mirrax.tf.lookup.table import Table, hashable, require_values
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import is_ragged_tensor


class MutableHashTable(Table):
    """A table whose keys can be added, changed and removed.

    A checkpoint does not save it: save what `export` returns.

    Args:
        key_dtype: The dtype of the keys.
        value_dtype: The dtype of the values.
        default_value: The value of other keys; its shape is that of all values.

    >>> table = MutableHashTable(np.int64, np.int64, default_value=-1)
    >>> table.insert([1, 2], [10, 20])
    >>> table.lookup([2, 3]).tolist()
    [20, -1]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        default = array_of(default_value, np.dtype(value_dtype))
        super().__init__(np.dtype(key_dtype), np.dtype(value_dtype), default)
        self.name = name
        self.value_shape = tuple(default.shape)

    @override
    def _keys_of(self, keys: Any) -> Any:
        require_values(keys)
        array = _of_kind(keys, self.key_dtype)
        shape = tuple(array.shape)
        if shape[len(shape) - len(self.key_shape) :] != self.key_shape:
            raise InvalidArgumentError(
                f"Each key of this table has the shape {self.key_shape}. Received: "
                f"keys of shape {shape}."
            )
        return array

    def lookup(  # type: ignore[override]
        self, keys: Any, dynamic_default_values: Any = None, name: Any = None
    ) -> Any:
        """Returns the value of each key.

        Args:
            keys: The keys.
            dynamic_default_values: What missing keys give, one value for each key.
        """
        found = super().lookup(keys)
        if dynamic_default_values is None:
            return found
        if is_ragged_tensor(keys) or is_ragged_tensor(dynamic_default_values):
            raise ValueError(
                "`dynamic_default_values` and their keys must be dense. Received: "
                f"{keys!r} and {dynamic_default_values!r}. Look up `keys.values`, with "
                "a default for each."
            )
        given = self._keys_of(keys)
        is_known = [key in self._values for key in self._each(given)]
        known = np.reshape(
            is_known, (*self._outer(given), *[1] * len(self.value_shape))
        )
        defaults = _of_kind(dynamic_default_values, self.value_dtype)
        return host(np.where(known, found, defaults))

    def insert(self, keys: Any, values: Any, name: Any = None) -> None:
        """Sets the value of each key."""
        require_values(values)
        given, new = self._keys_of(keys), _of_kind(values, self.value_dtype)
        expected = (*self._outer(given), *self.value_shape)
        if tuple(new.shape) != expected:
            raise InvalidArgumentError(
                f"A table needs a value for each key. Expected shape {expected} for "
                f"the values. Received: {tuple(new.shape)}."
            )
        for key, index in zip(
            self._each(given), np.ndindex(*self._outer(given)), strict=True
        ):
            self._values[key] = hashable(new[index])

    def remove(self, keys: Any, name: Any = None) -> None:
        """Removes keys; those that are not there are ignored."""
        for key in self._each(self._keys_of(keys)):
            self._values.pop(key, None)


class DenseHashTable(MutableHashTable):
    """A `MutableHashTable` with two keys that cannot be used, as in TensorFlow.

    Args:
        key_dtype: The dtype of the keys.
        value_dtype: The dtype of the values.
        default_value: The value of other keys; its shape is that of all values.
        empty_key: A key that is never used; its shape is that of all keys.
        deleted_key: Another one.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value, name)
        empty = _of_kind(empty_key, self.key_dtype)
        self.key_shape = tuple(empty.shape)
        self._reserved = {hashable(empty), hashable(_of_kind(deleted_key, key_dtype))}
        if len(self._reserved) < 2:
            raise InvalidArgumentError(
                "Empty and deleted keys cannot be equal. Received: "
                f"empty_key={empty_key!r}, deleted_key={deleted_key!r}."
            )

    @override
    def _keys_of(self, keys: Any) -> Any:
        given = super()._keys_of(keys)
        if not self._reserved.isdisjoint(self._each(given)):
            raise InvalidArgumentError(
                "Using the empty_key or the deleted_key as a table key is not "
                f"allowed. Received: {keys!r}."
            )
        return given

    insert_or_assign = MutableHashTable.insert
    erase = MutableHashTable.remove


def _of_kind(values: Any, dtype: Any) -> Any:
    """Returns keys or values as an array; raises if they are of another kind."""
    array = array_of(values, None)
    wanted = np.dtype(dtype)
    is_same = (array.dtype == string) == (wanted == string)
    if not array.size or (is_same and np.can_cast(array.dtype, wanted, "same_kind")):
        converted = array_of(array, wanted)
        # NumPy wraps integers that are too large.
        if wanted.kind not in "iu" or np.array_equal(converted, array):
            return converted
    raise TypeError(
        f"A table of {wanted} takes only such keys or values. Received: {values!r}."
    )
