"""Caches, and reading ahead."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from mirrax.data import Dataset
from tests.data.plans import counts, quick, sizes, through_json, values


@pytest.fixture
def counted():
    """A dataset of four numbers that notes what is read."""
    read = []

    def generate():
        for i in range(4):
            read.append(i)
            yield i

    dataset = Dataset.from_generator(generate, Dataset.range(1).element_spec)
    return dataset, read


def test_a_cache_reads_once(counted):
    dataset, read = counted
    cached = dataset.cache()
    assert [values(cached) for _ in range(3)] == [[0, 1, 2, 3]] * 3
    assert read == [0, 1, 2, 3]


def test_a_cache_that_was_not_read_to_its_end_starts_anew(counted):
    dataset, read = counted
    cached = dataset.cache()
    next(iter(cached))
    assert values(cached) == [0, 1, 2, 3]
    assert read == [0, 0, 1, 2, 3]


@quick
@given(count=counts, first=sizes, second=sizes)
def test_a_cache_holds_the_same_whatever_is_taken_at_once(count, first, second):
    cached = Dataset.range(count).cache()
    assert list(itertools.chain(*values(cached.batch(first)))) == list(range(count))
    assert list(itertools.chain(*values(cached.batch(second)))) == list(range(count))


def test_an_empty_dataset_can_be_cached():
    cached = Dataset.range(3).filter(lambda x: False).cache()
    assert [values(cached) for _ in range(2)] == [[], []]


def test_unequal_elements_can_be_cached():
    dataset = Dataset.range(3).map(lambda n: np.ones(int(n))).cache()
    assert [[len(x) for x in dataset] for _ in range(2)] == [[0, 1, 2]] * 2


def test_a_cached_order_stays(counted):
    cached = Dataset.range(20).shuffle(20, seed=1).cache()
    assert values(cached) == values(cached)


def test_what_is_done_to_an_element_does_not_reach_the_cache():
    cached = Dataset.from_tensor_slices(np.zeros((2, 3))).cache()
    list(cached)
    for element in cached:
        element[:] = 1
    assert not np.any(values(cached))


def test_a_later_epoch_of_a_cached_shuffle_resumes_in_the_cached_order():
    def make():
        return Dataset.range(20).shuffle(20, seed=1).cache()

    cached = make()
    values(cached)
    iterator = iter(cached)
    for _ in range(7):
        next(iterator)
    state = through_json(iterator.save_state())
    other = iter(make())
    other.restore_state(state)
    assert values(other) == values(iterator)


def test_a_cache_can_be_a_file(counted, tmp_path):
    dataset, read = counted
    name = str(tmp_path / "cache")
    assert values(dataset.cache(name)) == [0, 1, 2, 3]
    assert values(dataset.cache(name)) == [0, 1, 2, 3]
    assert read == [0, 1, 2, 3]
