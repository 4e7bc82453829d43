"""Which elements are kept."""

import itertools

import pytest
from hypothesis import given

from mirrax.data import Dataset
from mirrax.errors import InvalidArgumentError
from tests.data.plans import counts, quick, resumed, sizes, values


@quick
@given(count=counts, divisor=sizes, size=sizes)
def test_filter_keeps_what_is_true(count, divisor, size):
    dataset = Dataset.range(count).filter(lambda x: x % divisor == 0).batch(size)
    assert list(itertools.chain(*values(dataset))) == list(range(0, count, divisor))


def test_filter_that_keeps_nothing_is_empty():
    assert list(Dataset.range(9).filter(lambda x: False).batch(2)) == []


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


@pytest.mark.parametrize("method", ["filter", "take_while"])
def test_predicate_without_a_result_is_refused(method):
    dataset = getattr(Dataset.range(4), method)(lambda x: None)
    with pytest.raises(InvalidArgumentError, match=r"one truth value.*None.*`return`"):
        list(dataset)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([1, 2, 1, 3, 2], [1, 2, 3]), (["b", "a", "b"], [b"b", b"a"])],
    ids=["numbers", "text"],
)
def test_unique_leaves_out_what_came_before(numbers, expected):
    assert values(Dataset.from_tensor_slices(numbers).unique()) == expected


@pytest.mark.parametrize("position", [0, 1, 3])
def test_their_position_can_be_saved(position):
    def make():
        sums = Dataset.range(9).scan(0, lambda state, x: (state + x, state // 4))
        return sums.unique().take_while(lambda x: x < 7)

    rest, again = resumed(make, position)
    assert again == rest
    assert rest
