"""Which arguments of a call are given away, found by their numbers."""

import pytest

import mirrax
from mirrax import trees
from mirrax.run.compiled.arguments import Donation


def flags(argnums, *args, **kwargs):
    leaves, structure = trees.flatten((args, kwargs))
    return Donation("step", argnums).flags(structure, len(leaves))


def test_every_leaf_of_a_donated_argument_is_donated():
    state = {"a": 1, "b": [2, (3,)]}
    assert flags(1, 0, state, 4) == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("argnums", "expected"),
    [
        ((), [False, False, False]),
        ([], [False, False, False]),
        (0, [True, False, False]),
        ((2, 0), [True, False, True]),
        ([1, 1], [False, True, False]),
    ],
    ids=["none", "empty_list", "one", "several", "one_twice"],
)
def test_numbers_say_which_arguments_are_donated(argnums, expected):
    assert flags(argnums, 1, 2, 3) == expected


def test_arguments_without_leaves_have_nothing_to_donate():
    assert flags((0, 1, 2), None, (), {}, 5) == [False]
    assert flags(()) == []


def test_arguments_by_name_are_kept():
    assert flags(0, 1, x=2, y=[3, 4]) == [True, False, False, False]


def test_a_missing_argument_is_told_with_the_function_and_the_count():
    with pytest.raises(ValueError, match=r"a call of step with 1 of them"):
        flags((0, 1), 1)


def test_several_numbers_are_kept_in_their_order():
    assert Donation("step", [2, 0]).numbers == (2, 0)
    assert Donation("step", 3).numbers == (3,)


@pytest.mark.parametrize("numbers", ["x", -1, 1.5, (True,), (0, None)], ids=repr)
def test_donated_arguments_are_named_by_number(numbers):
    with pytest.raises(ValueError, match="is the number of a positional argument"):
        mirrax.function(lambda x: x, donate_argnums=numbers)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {"x": 1}), ((1,), {})], ids=["by_name", "too_few"]
)
def test_donated_argument_that_is_not_given_by_position_is_refused(args, kwargs):
    step = mirrax.function(lambda x, y=1: x, donate_argnums=1)
    with pytest.raises(ValueError, match=r"donate_argnums=\(1,\).*by position"):
        step(*args, **kwargs)
