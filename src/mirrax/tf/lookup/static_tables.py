"""`StaticHashTable` and tables of vocabularies: filled once."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.tf.lookup.initializers import KeyValueTensorInitializer
from mirrax.tf.lookup.table import Table
from mirrax.tf.tensors.host_tensors import host


class StaticHashTable(Table):
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
        super().__init__(initializer.key_dtype, initializer.value_dtype, default_value)
        keys, values = initializer.keys.tolist(), initializer.values.tolist()
        self._values = dict(zip(keys, values, strict=True))


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

    @override
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

    @override
    def size(self, name: Any = None) -> Any:
        """Returns how many keys and buckets there are."""
        return host(np.int64(self._buckets.stop))
