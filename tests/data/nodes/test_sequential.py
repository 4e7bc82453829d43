"""Functions that go through elements one after another, and keep something."""

import pytest

from mirrax.data import Dataset
from mirrax.errors import InvalidArgumentError
from tests.data.plans import resumed, values


def test_take_while_ends_before_the_first_that_does_not_fit():
    dataset = Dataset.from_tensor_slices([0, 1, 5, 2]).take_while(lambda x: x < 4)
    assert values(dataset) == [0, 1]
    assert dataset.cardinality() == -2


def test_take_while_asks_for_nothing_behind_the_end():
    read = []
    dataset = Dataset.from_generator(
        lambda: (read.append(n) or n for n in range(9)), Dataset.range(1).element_spec
    )
    assert values(dataset.take_while(lambda x: x < 2).batch(5)) == [[0, 1]]
    assert read == [0, 1, 2]


def test_take_while_needs_one_truth_value():
    dataset = Dataset.range(4).batch(2).take_while(lambda x: x < 4)
    with pytest.raises(InvalidArgumentError, match=r"one truth value.*shape \(2,\)"):
        list(dataset)


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


@pytest.mark.parametrize(
    ("given", "expected"),
    [([1, 2, 1, 3, 2], [1, 2, 3]), (["b", "a", "b"], [b"b", b"a"])],
    ids=["numbers", "text"],
)
def test_unique_leaves_out_what_came_before(given, expected):
    assert values(Dataset.from_tensor_slices(given).unique()) == expected


@pytest.mark.parametrize("position", [0, 1, 3])
def test_their_position_can_be_saved(position):
    def make():
        sums = Dataset.range(9).scan(0, lambda state, x: (state + x, state // 4))
        return sums.unique().take_while(lambda x: x < 7)

    rest, again = resumed(make, position)
    assert again == rest
    assert rest
