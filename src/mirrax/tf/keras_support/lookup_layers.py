"""`tf.keras.layers.StringLookup` and `IntegerLookup`, on the host."""

from __future__ import annotations

import collections
import itertools
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mirrax.tf.keras_support import internals
from mirrax.tf.lookup import KeyValueTensorInitializer, StaticHashTable
from mirrax.tf.lookup.static_tables import BucketTable
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor


def _text(token: Any) -> str:
    plain = token.item() if isinstance(token, np.generic | np.ndarray) else token
    return plain.decode() if isinstance(plain, bytes) else str(plain)


class StringLookup:
    """`tf.keras.layers.StringLookup`, on the host: outside of models and functions.

    Args:
        max_tokens: The largest size of a vocabulary that `adapt` finds.
        num_oov_indices: The number of indices for unknown strings. Which one a string
            gets differs from TensorFlow.
        mask_token: The string with index 0, if any.
        oov_token: What stands for unknown strings.
        vocabulary: The strings, or a file with one on each line.
        invert: Whether it turns indices into strings.
        output_mode: "int", "one_hot", "multi_hot" or "count".

    >>> StringLookup(vocabulary=["a", "b"])(["b", "z"]).tolist()
    [2, 0]
    """

    _key: Callable[[Any], Any] = staticmethod(_text)

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: Any = None,
        oov_token: Any = "[UNK]",
        vocabulary: Any = None,
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        name: str = "string_lookup",
        **_: Any,
    ) -> None:
        if output_mode not in ("int", "one_hot", "multi_hot", "binary", "count"):
            raise NotImplementedError(
                "The output of a lookup is 'int', 'one_hot', 'multi_hot' or "
                f"'count'. Received: output_mode={output_mode!r}. Weight the counts."
            )
        self.name = name
        self._max_tokens = max_tokens
        self._mask = [] if mask_token is None else [mask_token]
        self._special = [*self._mask, *[oov_token] * num_oov_indices]
        self._oov_token = oov_token
        self._invert = invert
        # The name of release 2.3.
        self._output_mode = "multi_hot" if output_mode == "binary" else output_mode
        if isinstance(vocabulary, str | pathlib.Path):
            vocabulary = pathlib.Path(vocabulary).read_text().splitlines()
        self.set_vocabulary(() if vocabulary is None else vocabulary)

    def set_vocabulary(
        self, vocabulary: Iterable[Any], idf_weights: Any = None
    ) -> None:
        """Sets the strings, with or without those for masks and unknown strings."""
        given = [self._key(token) for token in vocabulary]
        start, num_special = len(self._mask), len(self._special)
        is_whole = given[:num_special] == self._special
        self._tokens = given[num_special:] if is_whole else given
        tokens = np.array(self.get_vocabulary(), object)
        indices = np.arange(len(tokens))
        if self._invert:
            filled = KeyValueTensorInitializer(indices, tokens)
            self._table = StaticHashTable(filled, self._oov_token)
        else:
            unknown = range(start, num_special)
            filled = KeyValueTensorInitializer(
                np.delete(tokens, unknown), np.delete(indices, unknown)
            )
            self._table = BucketTable(filled, unknown)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """Returns the strings, by index."""
        return [*(self._special if include_special_tokens else ()), *self._tokens]

    def vocabulary_size(self) -> int:
        return len(self.get_vocabulary())

    def adapt(
        self, data: Any, batch_size: Any = None, steps: int | None = None
    ) -> None:
        """Takes the vocabulary from data: the most frequent strings first."""
        counts: collections.Counter[Any] = collections.Counter()
        for batch in itertools.islice(data, steps):
            given = batch.values if isinstance(batch, RaggedTensor) else batch
            counts.update(map(self._key, np.ravel(np.asarray(given)).tolist()))
        for token in self._special:
            counts.pop(token, None)
        # Equally frequent ones in reverse order, as in Keras.
        ordered = sorted(counts, key=lambda token: (counts[token], token), reverse=True)
        limit = self._max_tokens
        room = None if limit is None else limit - len(self._special)
        self.set_vocabulary(ordered[:room])

    def __call__(self, inputs: Any) -> Any:
        require_host(inputs)
        found = self._table.lookup(inputs)
        if self._invert or self._output_mode == "int":
            return found
        rows = np.eye(self.vocabulary_size(), dtype=np.float32)[np.asarray(found)]
        if self._output_mode == "one_hot" or rows.ndim == 1:
            return host(rows)
        counts = rows.sum(-2)
        return host(counts if self._output_mode == "count" else np.minimum(counts, 1))


class IntegerLookup(StringLookup):
    """`tf.keras.layers.IntegerLookup`, on the host: outside of models and functions.

    Its arguments are those of `StringLookup`, with integers for strings.

    >>> IntegerLookup(vocabulary=[12, 36])([36, 5]).tolist()
    [2, 0]
    """

    _key = staticmethod(int)

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int = -1,
        **options: Any,
    ) -> None:
        options.setdefault("name", "integer_lookup")
        super().__init__(max_tokens, num_oov_indices, mask_token, oov_token, **options)


def require_host(inputs: Any) -> None:
    """Raises if a layer of this module is used in a model."""
    if internals.is_symbolic(inputs):
        raise NotImplementedError(
            "Strings are looked up on the host. Received: an input of a Keras model. "
            "Call the layer in `Dataset.map`, and give the model indices."
        )
