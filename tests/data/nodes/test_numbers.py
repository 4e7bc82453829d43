"""Numbers in order, without end, and at random."""

import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec
from tests.data.plans import resumed, values


def test_counter_counts_without_end():
    dataset = Dataset.counter(start=2, step=3)
    assert values(dataset.take(3)) == [2, 5, 8]
    assert dataset.cardinality() == -1
    assert Dataset.counter(dtype=np.int32).element_spec.dtype == np.int32


def test_random_numbers_depend_on_the_seed_alone():
    dataset = Dataset.random(seed=3).take(600)
    assert values(dataset) == values(dataset) == values(Dataset.random(3).take(600))
    assert values(dataset) != values(Dataset.random(seed=4).take(600))
    assert len(set(values(dataset))) == 600
    assert 2**31 < max(values(dataset)) < 2**32


def test_random_numbers_can_differ_in_each_iteration():
    dataset = Dataset.random(3, rerandomize_each_iteration=True).take(4)
    assert values(dataset) != values(dataset)


@pytest.mark.parametrize("position", [0, 255, 300])
def test_their_position_can_be_saved(position):
    def make():
        numbers = Dataset.zip(Dataset.counter(), Dataset.random(seed=1))
        return numbers.take(400).assert_cardinality(400)

    rest, again = resumed(make, position)
    assert again == rest
    assert len(rest) == 400 - position


def test_range_gives_what_pythons_range_gives():
    assert values(Dataset.range(10, 0, -3)) == [10, 7, 4, 1]


def test_range_is_of_64_bit_integers():
    assert Dataset.range(3).element_spec == TensorSpec((), np.int64)
    assert next(iter(Dataset.range(3))).dtype == np.int64


def test_a_range_needs_a_step():
    with pytest.raises(InvalidArgumentError, match=r"must not be 0.*\[0, 5, 0\]"):
        Dataset.range(0, 5, 0)
