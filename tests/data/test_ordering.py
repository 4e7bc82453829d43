"""Which elements come, and in which order."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from tests.data.plans import counts, quick, sizes, values

SOURCES = {
    "looked up": Dataset.range,
    "read": lambda n: Dataset.range(n).filter(lambda x: True),
    "one by one": lambda n: Dataset.from_generator(
        lambda: iter(range(n)), Dataset.range(1).element_spec
    ),
}
sources = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())

ORDERS = """
from mirrax.data import Dataset
dataset = Dataset.range(30).shuffle({size}, seed=7)
print([[int(x) for x in dataset] for _ in range(3)])
"""


@sources
@quick
@given(count=counts, shards=sizes)
def test_shards_are_disjoint_and_complete(source, count, shards):
    parts = [values(source(count).shard(shards, i)) for i in range(shards)]
    assert parts == [list(range(count))[i::shards] for i in range(shards)]


@sources
@quick
@given(count=counts, start=counts, length=counts)
def test_skip_and_take_are_slices(source, count, start, length):
    expected = list(range(count))[start:][:length]
    assert values(source(count).skip(start).take(length)) == expected


@sources
def test_take_minus_one_takes_all(source):
    assert values(source(3).take(-1)) == [0, 1, 2]


@sources
def test_skip_minus_one_skips_all(source):
    assert values(source(3).skip(-1)) == []


@sources
@quick
@given(count=counts, times=st.integers(0, 4))
def test_repeat_gives_all_again(source, count, times):
    assert values(source(count).repeat(times)) == list(range(count)) * times


@sources
def test_repeating_without_a_count_never_ends(source):
    assert values(source(2).repeat().take(5)) == [0, 1, 0, 1, 0]


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


@pytest.mark.parametrize("size", [5, 30], ids=["small", "full"])
def test_the_same_seed_gives_the_same_orders_in_two_processes(size):
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.shuffle(0), "`buffer_size` must be at least 1"),
        (lambda d: d.shard(2, 2), "`index` must be one of the shards"),
        (lambda d: d.shard(2, -1), "`index` must be one of the shards"),
        (lambda d: d.shard(0, 0), "shards"),
    ],
    ids=["buffer", "too far", "negative", "none"],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(Dataset.range(3))


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.range(5).shard(3, 1), 2),
        (Dataset.range(1).shard(3, 2), 0),
        (Dataset.range(5).skip(7), 0),
        (Dataset.range(5).take(3).repeat(2), 6),
        (Dataset.range(5).repeat(), -1),
        (Dataset.range(5).repeat().take(3), 3),
        (Dataset.range(0).repeat(), 0),
        (Dataset.range(5).filter(bool).shuffle(2), -2),
    ],
    ids=["shard", "short", "skip", "take", "infinite", "finite", "empty", "unknown"],
)
def test_cardinality_follows_the_order(dataset, expected):
    assert dataset.cardinality() == expected


def test_numbers_of_numpy_are_counts_too():
    dataset = Dataset.range(9).skip(np.int64(1)).take(np.int64(3)).repeat(np.int64(2))
    assert values(dataset) == [1, 2, 3, 1, 2, 3]
