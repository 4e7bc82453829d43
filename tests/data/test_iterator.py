"""Positions of iterators: saved, restored, continued."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset, TextLineDataset
from tests.data.plans import (
    STEPS,
    build,
    elements,
    quick,
    recipes,
    resumed,
    through_json,
    values,
)


def at(dataset, position):
    iterator = iter(dataset)
    for _ in range(position):
        next(iterator)
    return iterator


def test_an_iterator_that_has_ended_stays_so():
    iterator = iter(Dataset.range(2))
    assert len(list(iterator)) == 2
    assert list(iterator) == []


def test_an_iterator_is_its_own_iterator():
    iterator = iter(Dataset.range(2))
    assert iter(iterator) is iterator


@quick
@given(recipe=recipes(), data=st.data())
def test_a_random_plan_resumes_identically(recipe, data):
    count = len(list(build(recipe)))
    position = data.draw(st.integers(0, count))
    rest, other = resumed(lambda: build(recipe), position)
    assert other == rest


@quick
@given(recipe=recipes(), data=st.data())
def test_a_random_plan_resumes_identically_in_its_second_iteration(recipe, data):
    dataset = build(recipe)
    list(dataset)
    count = len(list(dataset))
    position = data.draw(st.integers(0, count))
    iterator = at(dataset, position)
    other = iter(build(recipe))
    other.restore_state(through_json(iterator.save_state()))
    assert elements(other) == elements(iterator)


@pytest.mark.parametrize("name", STEPS)
@quick
@given(data=st.data(), a=st.integers(0, 9), b=st.integers(1, 5))
def test_each_operation_resumes_identically(name, data, a, b):
    def make():
        return STEPS[name](Dataset.range(10), a, b).shuffle(3, seed=1).batch(2)

    position = data.draw(st.integers(0, len(list(make()))))
    rest, other = resumed(make, position)
    assert other == rest


@pytest.mark.parametrize("position", [0, 1, 255, 256, 257, 512, 599, 600], ids=str)
def test_a_position_resumes_at_the_borders_of_what_is_read_at_once(position):
    rest, other = resumed(lambda: Dataset.range(600).shuffle(40, seed=1), position)
    assert other == rest
    assert len(rest) == 600 - position


@pytest.mark.parametrize("iteration", [0, 1, 5], ids=str)
def test_a_later_iteration_resumes_identically(iteration):
    def make():
        return Dataset.range(30).shuffle(30, seed=3)

    dataset = make()
    for _ in range(iteration):
        iter(dataset)
    iterator = at(dataset, 11)
    other = iter(make())
    other.restore_state(through_json(iterator.save_state()))
    assert values(other) == values(iterator)


def test_the_iteration_after_a_restored_one_is_the_next():
    def make():
        return Dataset.range(30).shuffle(30, seed=3)

    dataset = make()
    values(dataset)
    state = through_json(at(dataset, 11).save_state())
    fresh = make()
    iter(fresh).restore_state(state)
    assert values(fresh) == values(dataset)


def test_a_shuffle_without_a_seed_resumes_in_another_dataset():
    iterator = at(Dataset.range(30).shuffle(30), 11)
    other = iter(Dataset.range(30).shuffle(30))
    other.restore_state(through_json(iterator.save_state()))
    assert values(other) == values(iterator)


def test_an_endless_dataset_resumes_identically():
    def make():
        return Dataset.range(7).shuffle(7, seed=1).repeat().batch(3)

    iterator = at(make(), 10)
    other = iter(make())
    other.restore_state(through_json(iterator.save_state()))
    assert [next(other).tolist() for _ in range(9)] == [
        next(iterator).tolist() for _ in range(9)
    ]


def test_a_position_in_files_resumes_identically(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(5)))
    names = sorted(str(path) for path in tmp_path.iterdir())

    def make():
        lines = Dataset.from_tensor_slices(names).interleave(
            TextLineDataset, cycle_length=2, block_length=2
        )
        return lines.shuffle(4, seed=1).repeat(2).batch(4)

    assert [resumed(make, i)[0] for i in range(8)] == [
        resumed(make, i)[1] for i in range(8)
    ]


def test_a_position_can_be_restored_in_the_iterator_that_saved_it():
    iterator = at(Dataset.range(9).shuffle(9, seed=1), 4)
    state = iterator.save_state()
    rest = values(iterator)
    iterator.restore_state(state)
    assert values(iterator) == rest


def test_saving_does_not_move():
    iterator = at(Dataset.range(9), 4)
    iterator.save_state()
    assert int(next(iterator)) == 4


def test_the_end_can_be_saved():
    iterator = iter(Dataset.range(9).batch(2))
    list(iterator)
    other = iter(Dataset.range(9).batch(2))
    other.restore_state(through_json(iterator.save_state()))
    assert list(other) == []


def test_a_position_in_a_large_shuffle_is_small():
    iterator = at(Dataset.range(60_000).shuffle(60_000, seed=1), 3)
    assert len(json.dumps(iterator.save_state())) < 4096


def test_numbers_of_numpy_in_a_plan_can_be_saved():
    dataset = (
        Dataset.range(9).skip(np.int64(1)).take(np.int64(6)).enumerate(np.int64(2))
    )
    assert json.dumps(at(dataset, 2).save_state())


def test_a_position_of_another_version_is_refused():
    iterator = iter(Dataset.range(12).shuffle(4, seed=1))
    state = {**iterator.save_state(), "version": 1}
    message = "Received: one of format version 1, not 2: .*. Start at the beginning"
    with pytest.raises(ValueError, match=message):
        iterator.restore_state(state)


@pytest.mark.parametrize(
    "make",
    [Dataset.range, lambda n: Dataset.range(n).batch(1).unbatch()],
    ids=["looked up", "replayed"],
)
def test_a_position_beyond_the_end_is_refused(make):
    state = at(make(9), 7).save_state()
    with pytest.raises(ValueError, match="must hold what it held"):
        iter(make(3)).restore_state(state)


def test_the_position_is_what_was_got_not_what_was_read():
    iterator = at(Dataset.range(300).prefetch(8), 5)
    other = iter(Dataset.range(300).prefetch(8))
    other.restore_state(through_json(iterator.save_state()))
    assert elements(other) == elements(Dataset.range(5, 300))
