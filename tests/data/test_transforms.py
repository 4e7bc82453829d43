"""What is done with each element."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from tests.data.plans import PER_ELEMENT, counts, quick, sizes, values

Point = collections.namedtuple("Point", "x y")


def interleaved(lengths, cycle, block):
    """Returns what datasets of these lengths give in turn, as TensorFlow says."""
    waiting = iter([iter([(i, j) for j in range(n)]) for i, n in enumerate(lengths)])
    slots, has_more, turn, result = [None] * cycle, True, 0, []
    while has_more or any(slots):
        if slots[turn] is None:
            slots[turn] = next(waiting, None)
            if slots[turn] is None:
                has_more = False
                turn = (turn + 1) % cycle
                continue
        got = list(itertools.islice(slots[turn], block))
        result += got
        if len(got) < block:
            slots[turn] = None
        turn = (turn + 1) % cycle
    return result


def fail_at(number):
    def function(x):
        if x == number:
            raise ArithmeticError("no good")
        return x

    return function


# map


def test_map_gives_a_tuples_items_as_arguments():
    dataset = Dataset.zip(Dataset.range(3), Dataset.range(3)).map(lambda x, y: x + y)
    assert values(dataset) == [0, 2, 4]


def test_map_gives_a_named_tuple_whole():
    dataset = Dataset.from_tensor_slices(Point(np.arange(2), np.arange(2)))
    assert values(dataset.map(lambda point: point.x + point.y)) == [0, 2]


def test_map_gives_a_dictionary_whole():
    dataset = Dataset.from_tensor_slices({"a": np.arange(2)})
    assert values(dataset.map(lambda element: element["a"] + 1)) == [1, 2]


@pytest.mark.parametrize("number", [0, 3, 5], ids=str)
@pytest.mark.parametrize(
    "then",
    [lambda d: d, lambda d: d.batch(4), lambda d: d.shuffle(3, seed=1)],
    ids=["plain", "batch", "shuffle"],
)
def test_an_error_in_map_names_the_element(number, then):
    dataset = then(Dataset.range(9).map(fail_at(number)))
    with pytest.raises(ArithmeticError, match="no good") as caught:
        list(dataset)
    (note,) = caught.value.__notes__
    assert f"element {number}" in note


@pytest.mark.parametrize(
    "then",
    [
        lambda d: d,
        lambda d: d.take(9),
        lambda d: d.repeat(2),
        lambda d: d.skip(0),
        lambda d: d.shard(1, 0),
        lambda d: d.map(lambda x: x),
        lambda d: d.enumerate().map(lambda i, x: x),
        lambda d: d.filter(lambda x: True),
        lambda d: d.concatenate(d),
        lambda d: d.cache(),
        lambda d: d.batch(1).unbatch(),
    ],
    ids=[
        "plain",
        "take",
        "repeat",
        "skip",
        "shard",
        "map",
        "enumerate",
        "filter",
        "concatenate",
        "cache",
        "batch",
    ],
)
def test_what_comes_before_an_error_in_map_arrives(then):
    iterator = iter(then(Dataset.range(9).map(fail_at(5))))
    assert [int(next(iterator)) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ArithmeticError, match="no good"):
        next(iterator)


def test_map_keeps_order_whatever_is_said_about_parallel_calls():
    dataset = Dataset.range(50).map(lambda x: x, num_parallel_calls=8)
    assert values(dataset) == list(range(50))


# filter and enumerate


@quick
@given(count=counts, divisor=sizes, size=sizes)
def test_filter_keeps_what_is_true(count, divisor, size):
    dataset = Dataset.range(count).filter(lambda x: x % divisor == 0).batch(size)
    assert list(itertools.chain(*values(dataset))) == list(range(0, count, divisor))


def test_filter_that_keeps_nothing_is_empty():
    assert list(Dataset.range(9).filter(lambda x: False).batch(2)) == []


def test_enumerate_counts_from_a_start():
    dataset = Dataset.range(5, 8).enumerate(2)
    assert [(int(i), int(x)) for i, x in dataset] == [(2, 5), (3, 6), (4, 7)]


# interleave and flat_map


@quick
@given(
    lengths=st.lists(st.integers(0, 5), max_size=7),
    cycle=sizes,
    block=st.integers(1, 4),
)
def test_interleave_takes_turns(lengths, cycle, block):
    dataset = Dataset.from_tensor_slices(
        (np.arange(len(lengths)), np.array(lengths, np.int64))
    ).interleave(
        lambda i, n: Dataset.range(int(n)).map(lambda j: (i, j)),
        cycle_length=cycle,
        block_length=block,
    )
    got = [(int(i), int(j)) for i, j in dataset]
    assert got == interleaved(lengths, cycle, block)


@quick
@given(st.lists(st.integers(0, 4), max_size=6))
def test_flat_map_gives_one_dataset_after_another(lengths):
    dataset = Dataset.from_tensor_slices(np.array(lengths, np.int64))
    flat = dataset.flat_map(lambda n: Dataset.range(int(n)))
    assert values(flat) == [i for n in lengths for i in range(n)]


def test_interleaved_shuffles_differ_each_iteration():
    dataset = Dataset.range(2).interleave(
        lambda i: Dataset.range(20).shuffle(20, seed=1), cycle_length=1, block_length=20
    )
    assert values(dataset) != values(dataset)


# zip and concatenate


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


def test_a_function_may_change_an_element_in_place():
    def add_one(x):
        x += 1
        return x

    array = np.zeros((4, 2))
    dataset = Dataset.from_tensor_slices(array).cache().map(add_one)
    assert [values(dataset) for _ in range(2)] == [[[1, 1]] * 4] * 2
    assert not array.any()


def test_map_can_be_kept_to_single_elements():
    seen = []
    dataset = Dataset.range(4).with_options(PER_ELEMENT)
    list(dataset.map(lambda x: seen.append(type(x)) or x).batch(4))
    assert set(seen) == {np.int64}
