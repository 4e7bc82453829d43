"""Lists, generators and other iterables as datasets."""

import collections

import numpy as np
import pytest

from mirrax.data import Dataset, as_dataset
from mirrax.data.iterator import seal
from tests.data.plans import elements, resumed, through_json, values

BATCHES = [np.array([0, 1, 2]), np.array([3, 4])]
Point = collections.namedtuple("Point", "x y")


class Countdown:
    """Can be iterated again and again, but has no positions."""

    def __iter__(self):
        return iter([np.full(n, n) for n in (3, 2, 1)])


def generate():
    yield from BATCHES


def parts(strategy, data):
    distributed = strategy.experimental_distribute_dataset(data)
    return [[p.tolist() for p in step.values] for step in distributed]


@pytest.mark.parametrize(
    "data", [BATCHES, generate, generate()], ids=["list", "function", "generator"]
)
def test_each_item_is_a_global_batch(two_replicas, data):
    assert parts(two_replicas, data) == [[[0, 1], [2]], [[3], [4]]]


def test_an_iterable_starts_anew_at_each_iteration():
    dataset = as_dataset(Countdown())
    assert [values(dataset) for _ in range(2)] == [[[3, 3, 3], [2, 2], [1]]] * 2


def test_a_generator_cannot_be_gone_through_twice(two_replicas):
    distributed = two_replicas.experimental_distribute_dataset(generate())
    assert len(list(distributed)) == 2
    with pytest.raises(RuntimeError, match="can be consumed once"):
        list(distributed)


def test_asking_for_the_spec_of_a_generator_loses_nothing(two_replicas):
    distributed = two_replicas.experimental_distribute_dataset(generate())
    assert distributed.element_spec.parts[0].shape == (None,)
    assert len(list(distributed)) == 2


def test_nothing_is_read_before_it_is_asked_for(two_replicas):
    read = []

    def generate():
        for i in range(100):
            read.append(i)
            yield np.zeros(2)

    distributed = two_replicas.experimental_distribute_dataset(generate())
    assert read == []
    iter(distributed)
    assert read == []


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ([1, 2, 3], ("<i8", [1, 2, 3])),
        (1.5, ("<f4", 1.5)),
        (["a", "b"], ("|O", [b"a", b"b"])),
        ((np.ones(1), [2]), (("<f8", [1.0]), ("<i8", [2]))),
        ([np.ones(1), [2]], (("<f8", [1.0]), ("<i8", [2]))),
        ({"a": Point(1, "x")}, {"a": Point(("<i8", 1), ("|S1", b"x"))}),
        ({"a": None, "b": True}, {"a": None, "b": ("|b1", True)}),
    ],
    ids=["list", "float", "texts", "tuple", "list of arrays", "named", "none"],
)
def test_elements_become_structures_of_arrays(element, expected):
    assert elements(as_dataset([element])) == [expected]


@pytest.mark.parametrize(
    "element", [[[1, 2], [3]], object(), [object()]], ids=["ragged", "object", "list"]
)
def test_an_element_that_is_no_array_is_refused(element):
    with pytest.raises(ValueError, match="must consist of arrays"):
        list(as_dataset([element]))


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_list_resumes_by_number(position):
    rest, other = resumed(lambda: as_dataset([np.ones(n) for n in range(3)]), position)
    assert other == rest


def test_an_iterable_without_positions_is_read_again_and_says_so():
    iterator = iter(as_dataset(Countdown()))
    next(iterator)
    other = iter(as_dataset(Countdown()))
    with pytest.warns(UserWarning, match="`Countdown` cannot go to a position"):
        other.restore_state(through_json(iterator.save_state()))
    assert values(other) == values(iterator)


def test_the_start_of_an_iterable_needs_no_warning():
    state = iter(as_dataset(Countdown())).save_state()
    iterator = iter(as_dataset(Countdown()))
    iterator.restore_state(state)
    assert len(list(iterator)) == 3


def test_a_position_in_a_distributed_generator_is_what_was_got(two_replicas):
    def generate():
        for i in range(20):
            yield np.full(2, i)

    def make():
        return iter(two_replicas.experimental_distribute_dataset(generate))

    iterator = make()
    next(iterator)
    other = make()
    with pytest.warns(UserWarning, match="cannot go to a position"):
        other.restore_state(through_json(iterator.save_state()))
    assert int(next(other).values[0][0]) == 1


def test_a_position_beyond_the_end_is_refused():
    state = seal({"iteration": 0, "seeds": [], "stream": 9, "used": 0})
    with (
        pytest.warns(UserWarning, match="cannot go to a position"),
        pytest.raises(ValueError, match="it ends after 3 elements"),
    ):
        iter(as_dataset(Countdown())).restore_state(state)


def test_items_go_through_the_operations_of_datasets():
    dataset = as_dataset(Countdown()).unbatch().filter(lambda x: x > 1).batch(2)
    assert values(dataset) == [[3, 3], [3, 2], [2]]


@pytest.mark.parametrize(
    "data",
    [5, "text", None, (1, 2), {"a": 1}, len],
    ids=lambda data: type(data).__name__,
)
def test_what_cannot_be_iterated_is_refused(data, two_replicas):
    with pytest.raises(TypeError, match="A dataset must be"):
        two_replicas.experimental_distribute_dataset(data)


def test_a_distributed_dataset_is_not_distributed_again(two_replicas):
    distributed = two_replicas.experimental_distribute_dataset(
        Dataset.range(4).batch(2)
    )
    with pytest.raises(TypeError, match="A dataset must be"):
        two_replicas.experimental_distribute_dataset(distributed)


def test_an_empty_list_has_no_steps(two_replicas):
    assert parts(two_replicas, []) == []


def test_what_comes_before_an_error_arrives(two_replicas):
    def generate():
        yield from BATCHES
        raise OSError("the disk is gone")

    iterator = iter(two_replicas.experimental_distribute_dataset(generate))
    assert [next(iterator).values[0].tolist() for _ in range(2)] == [[0, 1], [3]]
    with pytest.raises(OSError, match="the disk is gone"):
        next(iterator)
