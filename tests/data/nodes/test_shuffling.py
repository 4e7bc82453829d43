"""Elements in random order."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from mirrax.values.tensor_spec import TensorSpec
from tests.data import fuzzing
from tests.data.plans import counts, quick, sizes, sources, values

ORDERS = """
from mirrax.data import Dataset
dataset = Dataset.range(30).shuffle({size}, seed=7)
print([[int(x) for x in dataset] for _ in range(3)])
"""


@sources
@quick
@given(count=counts, size=sizes, seed=st.integers(0, 99))
def test_shuffle_loses_and_doubles_nothing(source, count, size, seed):
    assert sorted(values(source(count).shuffle(size, seed=seed))) == list(range(count))


@sources
@pytest.mark.parametrize("size", [5, 30], ids=["small", "full"])
def test_shuffle_is_another_one_each_iteration(source, size):
    dataset = source(30).shuffle(size, seed=7)
    assert values(dataset) != values(dataset)


@sources
@pytest.mark.parametrize("size", [5, 30], ids=["small", "full"])
def test_shuffle_is_another_one_each_repetition(source, size):
    order = values(source(30).shuffle(size, seed=7).repeat(2))
    assert order[:30] != order[30:]
    assert sorted(order[:30]) == sorted(order[30:]) == list(range(30))


@sources
def test_shuffle_can_stay_the_same(source):
    dataset = source(30).shuffle(30, seed=7, reshuffle_each_iteration=False)
    assert values(dataset) == values(dataset)


@sources
@pytest.mark.parametrize("size", [5, 30], ids=["small", "full"])
def test_the_same_seed_gives_the_same_orders_in_two_datasets(source, size):
    first, second = (source(30).shuffle(size, seed=7) for _ in range(2))
    assert [values(first) for _ in range(3)] == [values(second) for _ in range(3)]


def test_the_same_seed_gives_the_same_orders_in_two_processes():
    size = 5
    dataset = Dataset.range(30).shuffle(size, seed=7)
    program = [sys.executable, "-c", ORDERS.format(size=size)]
    other = subprocess.run(program, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str([values(dataset) for _ in range(3)])


def test_other_seeds_give_other_orders():
    first, second = (Dataset.range(30).shuffle(30, seed=s) for s in (1, 2))
    assert values(first) != values(second)


def test_a_negative_seed_is_a_seed():
    assert sorted(values(Dataset.range(4).shuffle(4, seed=-1))) == [0, 1, 2, 3]


def test_the_order_of_a_shuffle_does_not_depend_on_what_comes_before_it():
    plain = Dataset.range(30).shuffle(30, seed=7)
    assert sorted(values(plain.map(lambda x: x))) == list(range(30))


def test_a_position_is_restored_with_few_elements_in_memory():
    def generate():
        return (np.zeros(100_000, np.uint8) for _ in range(600))

    def make():
        spec = TensorSpec((100_000,), np.uint8)
        return Dataset.from_generator(generate, spec).shuffle(3, seed=1)

    iterator = iter(make())
    for _ in range(500):
        next(iterator)
    state = iterator.save_state()
    restored = iter(make())
    with fuzzing.limits(megabytes=40):
        restored.restore_state(state)
    assert len(list(restored)) == 100
