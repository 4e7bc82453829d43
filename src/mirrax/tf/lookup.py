"""`tf.lookup`: tables that are read on the host, for example in `Dataset.map`."""

from __future__ import annotations

import pathlib
import zlib
from typing import Any

import numpy as np

from mirrax.tf.dtypes import string
from mirrax.tf.missing_names import names_of
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import holds_strings, is_traced, string_tensor


class KeyValueTensorInitializer:
    """Keys and values, one after another.

    Args:
        keys: The keys.
        values: The values.
        key_dtype: The dtype of the keys; by default, their own.
        value_dtype: The dtype of the values; by default, their own.
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: Any = None,
    ) -> None:
        self.keys, self.values = _array(keys, key_dtype), _array(values, value_dtype)
        if self.keys.shape != self.values.shape:
            raise ValueError(
                "A table needs a value for each key. Received: keys of shape "
                f"{tuple(self.keys.shape)}, values of shape {tuple(self.values.shape)}."
            )
        self.key_dtype, self.value_dtype = self.keys.dtype, self.values.dtype


class TextFileIndex:
    """Which part of a line of a file is a key or a value."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(KeyValueTensorInitializer):
    """The lines of a file.

    Args:
        filename: The path.
        key_dtype: The dtype of the keys.
        key_index: A column, or one of `TextFileIndex`.
        value_dtype: The dtype of the values.
        value_index: A column, or one of `TextFileIndex`.
        vocab_size: How many lines are read; all by default.
        delimiter: Between the columns.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: Any = None,
        value_index_offset: int = 0,
    ) -> None:
        lines = pathlib.Path(filename).read_text().splitlines()[:vocab_size]
        super().__init__(
            [_part(line, n, key_index, delimiter, 0) for n, line in enumerate(lines)],
            [
                _part(line, n, value_index, delimiter, value_index_offset)
                for n, line in enumerate(lines)
            ],
            key_dtype,
            value_dtype,
        )


def _part(line: str, number: int, index: int, delimiter: str, offset: int) -> Any:
    if index == TextFileIndex.LINE_NUMBER:
        return number + offset
    return line if index == TextFileIndex.WHOLE_LINE else line.split(delimiter)[index]


def _array(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    if holds_strings(values) and (dtype is None or dtype == string):
        return string_tensor(values)
    return np.asarray(values, dtype)


class StaticHashTable:
    """A table that is filled once.

    Args:
        initializer: The keys and values.
        default_value: The value of other keys.

    >>> filled = KeyValueTensorInitializer(["a", "b"], [1, 2])
    >>> StaticHashTable(filled, default_value=-1).lookup(["b", "z"]).tolist()
    [2, -1]
    """

    def __init__(
        self,
        initializer: KeyValueTensorInitializer,
        default_value: Any,
        name: Any = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        self.key_dtype = initializer.key_dtype
        self.value_dtype = initializer.value_dtype
        self.default_value = _plain(default_value)
        keys, values = initializer.keys.tolist(), initializer.values.tolist()
        self._values = dict(zip(keys, values, strict=True))

    def size(self, name: Any = None) -> Any:
        """Returns how many keys there are."""
        return host(np.int64(len(self._values)))

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """Returns the value of each key, or the default."""
        if isinstance(keys, RaggedTensor):
            return keys.map(self.lookup)
        if is_traced(keys):
            raise NotImplementedError(
                "A table is read on the host. Received: traced keys, inside "
                "`tf.function`. Look them up in the input pipeline, with `Dataset.map`."
            )
        given = string_tensor(keys) if holds_strings(keys) else np.asarray(keys)
        found = np.empty(tuple(given.shape), self.value_dtype)
        for index in np.ndindex(*given.shape):
            found[index] = self._value(_plain(given[index]))
        return host(found)

    def _value(self, key: Any) -> Any:
        return self._values.get(key, self.default_value)

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def export(self, name: Any = None) -> tuple[Any, Any]:
        """Returns all keys and all values."""
        keys, values = list(self._values), list(self._values.values())
        return (
            host(np.array(keys, self.key_dtype)),
            host(np.array(values, self.value_dtype)),
        )


class BucketTable(StaticHashTable):
    """A table of integers, with buckets for other keys.

    Args:
        initializer: The keys and their numbers.
        buckets: The numbers of other keys. Which one a key gets differs from
            TensorFlow.
    """

    def __init__(self, initializer: KeyValueTensorInitializer, buckets: range) -> None:
        super().__init__(initializer, -1)
        self._buckets = buckets

    def _value(self, key: Any) -> Any:
        if key in self._values:
            return self._values[key]
        if not self._buckets:
            raise ValueError(
                "Without numbers for unknown keys, all keys must be in the "
                f"vocabulary. Received: {key!r}. Use `num_oov_indices=1`, or "
                "`num_oov_buckets=1` of a table."
            )
        text = key if isinstance(key, bytes) else str(key).encode()
        return self._buckets[zlib.crc32(text) % len(self._buckets)]


class StaticVocabularyTable(BucketTable):
    """A table of keys that are numbered from 0 on, with buckets for other keys."""

    def __init__(
        self,
        initializer: KeyValueTensorInitializer,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: Any = None,
    ) -> None:
        count = len(initializer.keys)
        super().__init__(initializer, range(count, count + int(num_oov_buckets)))

    def size(self, name: Any = None) -> Any:
        """Returns how many keys and buckets there are."""
        return host(np.int64(self._buckets.stop))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return value.tolist() if hasattr(value, "tolist") else value


__getattr__ = names_of("tf.lookup")
