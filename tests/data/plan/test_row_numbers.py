"""Streams of row numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from tests.data.plans import quick, through_json


def indices_of(dataset):
    return dataset.plan.indices((0,))


def shuffled(count, size, seed):
    return indices_of(Dataset.range(count).shuffle(size, seed=seed))


KINDS = {
    "counted": lambda: indices_of(Dataset.range(20)),
    "full shuffle": lambda: shuffled(20, 20, 1),
    "small shuffle": lambda: shuffled(20, 3, 1),
    "repeated": lambda: indices_of(Dataset.range(7).shuffle(7, seed=1).repeat(3)),
    "strided": lambda: indices_of(Dataset.range(20).shard(3, 1)),
    "limited": lambda: indices_of(Dataset.range(20).skip(3).take(11)),
    "stacked": lambda: indices_of(
        Dataset.range(9).shuffle(4, seed=1).repeat(4).shard(2, 1).skip(2).take(12)
    ),
}
kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())


def take_all(indices, limits=(1000,)):
    taken = []
    while True:
        for limit in limits:
            columns = indices.take(limit)
            if columns is None:
                return taken
            assert 0 < len(columns[0]) <= limit
            taken.extend(columns[0].tolist())


@kinds
@quick
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_numbers_do_not_depend_on_how_many_are_taken_at_once(make, limits):
    assert take_all(make(), limits) == take_all(make())


@kinds
@quick
@given(position=st.integers(0, 20), limit=st.integers(1, 6))
def test_a_restored_position_continues_identically(make, position, limit):
    indices = make()
    missing = position
    while missing and (columns := indices.take(min(limit, missing))) is not None:
        missing -= len(columns[0])
    other = make()
    other.restore(through_json(indices.state()))
    assert take_all(other) == take_all(indices)


@quick
@given(count=st.integers(0, 40), size=st.integers(1, 45), seed=st.integers(0, 99))
def test_shuffling_loses_and_doubles_nothing(count, size, seed):
    assert sorted(take_all(shuffled(count, size, seed))) == list(range(count))


@quick
@given(count=st.integers(1, 40), size=st.integers(1, 10), seed=st.integers(0, 99))
def test_a_buffer_bounds_how_early_a_number_can_come(count, size, seed):
    numbers = take_all(shuffled(count, size, seed))
    assert all(number <= place + size for place, number in enumerate(numbers))


@quick
@given(count=st.integers(0, 30), step=st.integers(1, 7))
def test_strides_are_disjoint_and_complete(count, step):
    parts = [
        take_all(indices_of(Dataset.range(count).shard(step, i))) for i in range(step)
    ]
    assert sorted(itertools.chain(*parts)) == list(range(count))


def test_repeating_nothing_for_ever_ends():
    assert take_all(indices_of(Dataset.range(0).repeat())) == []


def test_full_shuffles_are_uniform_in_the_first_place():
    firsts = [shuffled(4, 4, seed).take(1)[0][0] for seed in range(400)]
    assert min(np.bincount(firsts, minlength=4)) > 60
