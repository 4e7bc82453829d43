"""Taking batches apart, and cutting them anew."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from tests.data.plans import counts, quick, ragged, sizes, values


@quick
@given(count=counts, size=sizes)
def test_unbatch_undoes_batch(count, size):
    assert values(Dataset.range(count).batch(size).unbatch()) == list(range(count))


def test_unbatch_passes_over_empty_batches():
    dataset = ragged(2, 0, 1).unbatch()
    assert values(dataset) == [2, 2, 1]


def test_unbatch_refuses_arrays_of_unequal_length():
    dataset = Dataset.from_tensors((np.arange(2), np.arange(3))).unbatch()
    with pytest.raises(ValueError, match="rows"):
        list(dataset)


@quick
@given(
    count=st.integers(0, 30),
    size=sizes,
    parts=st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_rebatch_loses_nothing_and_takes_turns(count, size, parts):
    batches = values(Dataset.range(count).batch(size).rebatch(parts))
    assert list(itertools.chain(*batches)) == list(range(count))
    lengths = [len(batch) for batch in batches[:-1]]
    assert lengths == [parts[i % len(parts)] for i in range(len(lengths))]


def test_rebatch_can_drop_the_remainder():
    dataset = Dataset.range(7).batch(7).rebatch(3, drop_remainder=True)
    assert values(dataset) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("sizes", [0, [2, -1], []], ids=["zero", "negative", "none"])
def test_rebatch_refuses_impossible_sizes(sizes):
    with pytest.raises(ValueError, match="batch_size"):
        Dataset.range(3).batch(3).rebatch(sizes)


def test_batches_of_one_size_have_a_known_one():
    dataset = Dataset.range(8).batch(2)
    assert dataset.rebatch(4, drop_remainder=True).element_spec.shape == (4,)
    assert dataset.rebatch(4).element_spec.shape == (None,)
    assert dataset.rebatch([1, 2], drop_remainder=True).element_spec.shape == (None,)
