"""Datasets side by side, and one after another."""

import itertools

import pytest
from hypothesis import given

from mirrax.data import Dataset
from tests.data.plans import counts, quick, sizes, values


def fail_at(number):
    def function(x):
        if x == number:
            raise ArithmeticError("no good")
        return x

    return function


def test_enumerate_counts_from_a_start():
    dataset = Dataset.range(5, 8).enumerate(2)
    assert [(int(i), int(x)) for i, x in dataset] == [(2, 5), (3, 6), (4, 7)]


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
