"""Datasets side by side, and one after another."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from tests.data.plans import counts, fail_at, quick, sizes, values


@quick
@given(counts, counts)
def test_zip_ends_with_the_shortest(first, second):
    pairs = [
        (int(x), int(y))
        for x, y in Dataset.zip(Dataset.range(first), Dataset.range(second))
    ]
    assert pairs == [(i, i) for i in range(min(first, second))]


def test_zip_takes_a_nesting_of_datasets():
    (element,) = Dataset.zip({"a": Dataset.range(1), "b": (Dataset.range(5, 6),)})
    assert element == {"a": 0, "b": (5,)}


def test_zip_reads_nothing_after_the_shortest_has_ended():
    long = Dataset.range(9).map(fail_at(2))
    pairs = Dataset.zip(Dataset.range(2), long)
    assert len(list(pairs)) == 2


@quick
@given(counts, counts, sizes)
def test_concatenate_gives_one_after_the_other(first, second, size):
    dataset = Dataset.range(first).concatenate(Dataset.range(second)).batch(size)
    assert list(itertools.chain(*values(dataset))) == [
        *range(first),
        *range(second),
    ]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.zip(Dataset.range(3), Dataset.range(5)), 3),
        (Dataset.zip(Dataset.range(3), Dataset.range(5).repeat()), 3),
        (Dataset.range(3).concatenate(Dataset.range(5)), 8),
        (Dataset.range(3).concatenate(Dataset.range(5).repeat()), -1),
        (Dataset.range(3).filter(bool), -2),
        (Dataset.range(3).map(lambda x: x), 3),
    ],
    ids=["zip", "zip_infinite", "concatenate", "infinite", "filter", "map"],
)
def test_cardinality_follows_the_operation(dataset, expected):
    assert dataset.cardinality() == expected


@quick
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), sizes)
def test_zip_of_any_sources_gives_rows_side_by_side(chunks, size):
    # Each source gives as many at once as it likes.
    sources = [Dataset.range(20).batch(n).unbatch() for n in chunks]
    batches = Dataset.zip(*sources, Dataset.range(20)).batch(size)
    rows = [tuple(map(int, x)) for batch in batches for x in zip(*batch, strict=True)]
    assert rows == [(i,) * (len(chunks) + 1) for i in range(20)]


def test_zip_of_arrays_is_looked_up_at_once():
    looked_up = []
    pairs = Dataset.zip(Dataset.range(8), Dataset.range(8))
    numbers = pairs.map(lambda x, y: looked_up.append(1) or x + y)
    assert values(numbers.batch(8)) == [[2 * i for i in range(8)]]
    stream = pairs.plan.open((0,))
    assert [len(column) for column in stream.take(8)] == [8, 8]


def test_zip_raises_what_a_source_raises_after_what_came_before():
    iterator = iter(Dataset.zip(Dataset.range(9), Dataset.range(9).map(fail_at(2))))
    assert [next(iterator) for _ in range(2)] == [(0, 0), (1, 1)]
    with pytest.raises(ArithmeticError, match="no good"):
        next(iterator)


def test_many_datasets_can_be_concatenated_one_by_one():
    dataset = Dataset.range(1)
    for number in range(1, 1000):
        dataset = dataset.concatenate(Dataset.range(number, number + number % 2))
    assert values(dataset) == [0, *range(1, 1000, 2)]
    assert dataset.cardinality() == 501
