"""A function of each element."""

import collections

import numpy as np
import pytest

from mirrax.data import Dataset
from tests.data.plans import PER_ELEMENT, fail_at, values

Point = collections.namedtuple("Point", "x y")


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


def test_scan_hands_on_a_state():
    # As TensorFlow 2.21 answers.
    dataset = Dataset.range(5).scan(0, lambda state, x: (state + x, state * x))
    assert values(dataset) == [0, 0, 2, 9, 24]
    assert (dataset.cardinality(), dataset.element_spec.shape) == (5, ())


def test_scan_gives_a_tuple_as_one_element():
    pairs = Dataset.zip(Dataset.range(3), Dataset.range(3))
    dataset = pairs.scan(1, lambda state, pair: (state * 2, pair[0] + pair[1] + state))
    assert values(dataset) == [1, 4, 8]
    assert dataset.element_spec.shape == ()


def test_scan_needs_a_pair():
    with pytest.raises(TypeError, match=r"must return a pair.*Received: "):
        list(Dataset.range(2).scan(0, lambda state, x: state))


def _inverse(x):
    return 6 // int(x)


def test_errors_of_elements_are_ignored_up_to_where_elements_are_combined():
    inverses = Dataset.range(4).map(_inverse)
    kept = inverses.prefetch(2).repeat(2).ignore_errors()
    assert [int(x) for x in kept] == [6, 3, 2, 6, 3, 2]
    # Those that are left out count for nothing.
    assert [int(x) for x in inverses.skip(1).take(2).ignore_errors()] == [3, 2]
    assert [int(x) for x in inverses.shard(2, 0).ignore_errors()] == [6, 2]
    # Otherwise, each of the others would belong to another number.
    with pytest.raises(ZeroDivisionError):
        list(Dataset.zip(inverses, Dataset.range(4)).ignore_errors())


@pytest.mark.parametrize(
    "failing",
    [Dataset.range(4).map(_inverse), Dataset.range(4).filter(_inverse)],
    ids=["map", "filter"],
)
def test_ignored_errors_are_logged_as_warnings_if_wanted(failing, caplog):
    list(failing.ignore_errors())
    assert not caplog.records
    list(failing.ignore_errors(log_warning=True))
    assert "left out element 0 because of its error: ZeroDivisionError" in caplog.text


def test_a_position_among_ignored_errors_is_restored():
    dataset = Dataset.range(8).map(lambda x: 6 // (int(x) % 3)).ignore_errors()
    iterator = iter(dataset)
    assert [int(next(iterator)) for _ in range(3)] == [6, 3, 6]
    other = iter(dataset)
    other.restore_state(iterator.save_state())
    assert [int(x) for x in other] == [int(x) for x in iterator] == [3, 6]
