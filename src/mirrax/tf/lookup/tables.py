"""Tables from keys to values."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from mirrax.tf.lookup.initializers import KeyValueTensorInitializer
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import holds_strings, is_traced, string_tensor


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


class StaticVocabularyTable(StaticHashTable):
    """A table of integers, with buckets for other keys.

    Args:
        initializer: The keys and their numbers, from 0 on.
        num_oov_buckets: The number of buckets. Which one a key gets differs from
            TensorFlow.
    """

    def __init__(
        self,
        initializer: KeyValueTensorInitializer,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: Any = None,
    ) -> None:
        super().__init__(initializer, -1)
        self._num_buckets = int(num_oov_buckets)

    def _value(self, key: Any) -> Any:
        if key in self._values:
            return self._values[key]
        text = key if isinstance(key, bytes) else str(key).encode()
        return len(self._values) + zlib.crc32(text) % self._num_buckets

    def size(self, name: Any = None) -> Any:
        """Returns how many keys and buckets there are."""
        return host(np.int64(len(self._values) + self._num_buckets))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return value.tolist() if hasattr(value, "tolist") else value
