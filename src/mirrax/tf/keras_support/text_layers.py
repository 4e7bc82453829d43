"""`tf.keras.layers.TextVectorization`, on the host."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable
from typing import Any

import numpy as np

from mirrax.tf import strings
from mirrax.tf.keras_support.lookup_layers import StringLookup, require_host
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import string_tensor

_DROP_PUNCTUATION = bytes.maketrans(b"", b""), string.punctuation.encode()


class TextVectorization:
    """Turns texts into indices of words, outside of models and functions.

    Args:
        max_tokens: The largest size of a vocabulary that `adapt` finds.
        standardize: "lower_and_strip_punctuation", "lower", "strip_punctuation", None,
            or a function of a tensor of texts.
        split: "whitespace", "character", None, or a function that returns a ragged
            tensor of the words.
        ngrams: Adds the sequences of up to so many words, or of the given numbers.
        output_mode: "int", "multi_hot" or "count".
        output_sequence_length: The length of the rows; else that of the longest one.
        pad_to_max_tokens: Whether "multi_hot" and "count" have `max_tokens` columns.
        vocabulary: The words, or a file with one on each line.
        ragged: Whether "int" gives a ragged tensor, whose rows are not padded.

    >>> layer = TextVectorization(vocabulary=["the", "cat"])
    >>> layer(["The cat!", "dog"]).tolist()
    [[2, 3], [1, 0]]
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace",
        ngrams: Any = None,
        output_mode: str = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        ragged: bool = False,
        name: str = "text_vectorization",
        **_: Any,
    ) -> None:
        self.name = name
        self._standardize = standardize
        self._split = split
        self._widths = range(1, ngrams + 1) if isinstance(ngrams, int) else ngrams
        self._is_int = output_mode == "int"
        self._length = output_sequence_length
        self._ragged = ragged
        self._columns = max_tokens if pad_to_max_tokens else None
        self._lookup = StringLookup(
            max_tokens,
            mask_token="" if self._is_int else None,
            vocabulary=vocabulary,
            output_mode=output_mode,
        )
        self.get_vocabulary = self._lookup.get_vocabulary
        self.set_vocabulary = self._lookup.set_vocabulary
        self.vocabulary_size = self._lookup.vocabulary_size

    def adapt(
        self, data: Any, batch_size: Any = None, steps: int | None = None
    ) -> None:
        """Takes the vocabulary from data: the most frequent words first."""
        batches = [data] if isinstance(data, list | str) else data
        words = (self._words(batch) for batch in itertools.islice(batches, steps))
        self._lookup.adapt(words)

    def __call__(self, inputs: Any) -> Any:
        require_host(inputs)
        words = self._words(inputs)
        if self._is_int and self._ragged:
            return self._lookup(words)
        if self._is_int:
            shape = None if self._length is None else (None, self._length)
            found = self._lookup(words).to_tensor(shape=shape)
        else:
            found = np.stack([self._lookup(row).numpy() for row in words])
            more = max(0, (self._columns or 0) - found.shape[1])
            found = np.pad(found, [(0, 0), (0, more)])
        return host(found if np.ndim(inputs) else found[0])

    def _words(self, texts: Any) -> Any:
        standard = np.ravel(self._standardized(string_tensor(texts)))
        if self._split == "whitespace":
            words = strings.split(standard)
        elif self._split == "character":
            words = strings.unicode_split(standard)
        elif self._split is None:
            words = RaggedTensor.from_tensor(standard[:, None])
        else:
            words = self._split(host(standard))
        if self._widths is None:
            return words
        return RaggedTensor.from_rows([self._sequences(row.tolist()) for row in words])

    def _standardized(self, texts: Any) -> Any:
        kind = self._standardize
        if callable(kind):
            return kind(texts)
        if kind is not None and "lower" in kind:
            texts = strings.lower(texts)
        if kind is not None and "strip_punctuation" in kind:
            # All of it in one pass over each text.
            table, dropped = _DROP_PUNCTUATION
            bare = [text.translate(table, dropped) for text in texts.flat]
            texts = string_tensor(bare).reshape(texts.shape)
        return texts

    def _sequences(self, words: list[bytes]) -> Iterable[bytes]:
        return [
            b" ".join(words[start : start + width])
            for width in self._widths
            for start in range(len(words) - width + 1)
        ]
