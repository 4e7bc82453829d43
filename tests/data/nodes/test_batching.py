"""Putting elements together."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset, PaddedInBatches
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec
from tests.data.plans import counts, quick, ragged, sizes, values


@quick
@given(count=counts, size=sizes, drop=st.booleans())
def test_batches_are_slices(count, size, drop):
    expected = [list(range(count))[i : i + size] for i in range(0, count, size)]
    if drop:
        expected = [batch for batch in expected if len(batch) == size]
    dataset = Dataset.range(count).batch(size, drop_remainder=drop)
    assert values(dataset) == expected
    assert dataset.cardinality() == len(expected)


def test_ragged_elements_are_refused_after_what_came_before():
    iterator = iter(ragged(2, 2, 2, 3).batch(2))
    assert next(iterator).shape == (2, 2)
    with pytest.raises(InvalidArgumentError, match=r"\[2\], int64\[3\].*padded_batch"):
        next(iterator)


def test_a_batch_size_must_be_positive():
    with pytest.raises(ValueError, match=r"`batch_size` must be.*batch_size=0"):
        Dataset.range(3).batch(0)


def test_padded_batch_fills_up_to_the_longest():
    assert values(ragged(1, 2).padded_batch(2)) == [[[1, 0], [2, 2]]]


def test_padded_batch_can_use_a_few_lengths_for_unknown_sizes():
    spec = TensorSpec((None, 3), np.float32)
    rows = [np.ones((length, 3), np.float32) for length in (1, 2, 17, 5)]
    dataset = Dataset.from_generator(lambda: iter(rows), spec)
    batches = dataset.padded_batch(2, few_lengths=True)
    assert [batch.shape for batch in batches] == [(2, 16, 3), (2, 32, 3)]
    first = next(iter(batches))
    assert first.sum() == 9
    with_shapes = dataset.padded_batch(4, (None, 7), few_lengths=True)
    assert [batch.shape for batch in with_shapes] == [(4, 32, 7)]
    free = dataset.padded_batch(4, (None, None), few_lengths=True)
    assert [batch.shape for batch in free] == [(4, 32, 3)]


def test_a_few_lengths_do_not_depend_on_the_first_element():
    texts = Dataset.from_tensor_slices(["a b c", "a b", "a", "a b c d e"])
    words = texts.map(lambda text: np.ones(len(text.split())))
    batches = words.padded_batch(2, few_lengths=True)
    assert [batch.shape for batch in batches] == [(2, 16), (2, 16)]


def test_padded_batch_fills_up_to_a_shape_with_a_value():
    dataset = ragged(1, 2).padded_batch(2, padded_shapes=(3,), padding_values=-1)
    assert values(dataset) == [[[1, -1, -1], [2, 2, -1]]]


def test_padded_batch_leaves_scalars_alone():
    tokens, labels = next(iter(ragged(1, 2, label=True).padded_batch(2)))
    assert tokens.tolist() == [[1, 0], [2, 2]]
    assert labels.tolist() == [1, 2]


def test_padded_batch_of_scalars_is_a_batch():
    assert values(Dataset.range(3).padded_batch(2)) == [[0, 1], [2]]


def test_padded_batch_fills_text_with_empty_text():
    rows = [np.array([b"a"], object), np.array([b"b", b"longer"], object)]
    dataset = Dataset.range(2).map(lambda i: rows[i]).padded_batch(2)
    assert values(dataset) == [[[b"a", b""], [b"b", b"longer"]]]


def test_padded_batch_refuses_what_does_not_fit():
    with pytest.raises(InvalidArgumentError, match="must fit into `padded_shapes`"):
        list(ragged(4).padded_batch(1, padded_shapes=(3,)))


def test_padded_batch_says_that_known_sizes_stay():
    # As TensorFlow 2.21 answers.
    rows = Dataset.from_tensors([[1, 2]])
    assert rows.padded_batch(2).element_spec.shape == (None, 1, 2)
    assert rows.padded_batch(2, [None, None]).element_spec.shape == (None, None, None)
    assert rows.padded_batch(2, [-1, 4]).element_spec.shape == (None, None, 4)
    assert ragged(1).padded_batch(2).element_spec.shape == (None, None)
    dropping = Dataset.range(3).padded_batch(2, drop_remainder=True)
    assert dropping.element_spec.shape == (2,)


def test_padded_batch_says_its_shape():
    dataset = Dataset.from_tensor_slices(np.ones((2, 3))).padded_batch(2, (5,))
    assert next(iter(dataset)).shape == (2, 5)
    assert dataset.element_spec.shape == (None, 5)


@quick
@given(st.lists(st.integers(0, 5), max_size=9), sizes)
def test_padded_batch_loses_nothing(lengths, size):
    batches = values(ragged(*[n + 1 for n in lengths]).padded_batch(size))
    rows = [row for batch in batches for row in batch]
    assert [[x for x in row if x] for row in rows] == [
        [n + 1] * (n + 1) for n in lengths
    ]


def test_text_to_pad_with_is_bytes_as_all_text_is():
    rows = [np.array([b"a"], object), np.array([b"b", b"c"], object)]
    spec = TensorSpec([None], object)
    dataset = Dataset.from_generator(lambda: rows, spec)
    (batch,) = dataset.padded_batch(2, padding_values="none")
    assert batch.tolist() == [[b"a", b"none"], [b"b", b"c"]]


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class _Padded(PaddedInBatches):
    values: object

    def tree_flatten(self):
        return (self.values,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def test_objects_that_say_so_are_padded_in_batches():
    made = Dataset.range(2).map(lambda i: (_Padded(np.ones(int(i) + 1)), i))
    ((padded, numbers),) = made.batch(2)
    assert padded.values.tolist() == [[1, 0], [1, 1]]
    assert numbers.tolist() == [0, 1]


def test_other_parts_of_such_elements_must_have_one_shape():
    made = Dataset.range(2).map(lambda i: (_Padded(i), np.ones(int(i))))
    with pytest.raises(InvalidArgumentError, match="must have the same shape"):
        list(made.batch(2))
