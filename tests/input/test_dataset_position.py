"""Positions of distributed datasets, which fit any number of workers."""

import dataclasses

import pytest

from mirrax.input.dataset_position import DatasetPosition, load, require_pipelines
from tests.data.plans import through_json


def position_of(worker, step=3, count=2, **options):
    """Returns the position of one of several workers, in a pipeline of its own."""
    return DatasetPosition(step, count, False, {worker: ({"at": worker}, 5)}, **options)


# Through JSON and back.


@pytest.mark.parametrize(
    "position",
    [
        DatasetPosition(0, 1, False, {}),
        DatasetPosition(7, 2, True, {1: ([1, {"a": None}], 0)}),
        DatasetPosition(7, 12, False, {10: ("x", 3), 2: (None, 0)}, has_ended=True),
    ],
    ids=["start", "own", "ended"],
)
def test_position_comes_back_from_json(position):
    assert load(through_json(position.dump())) == position


def test_position_can_be_loaded_without_json():
    assert load(position_of(1).dump()) == position_of(1)


def test_position_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        position_of(0).step = 4


# Positions of several workers.


def dumps(*positions):
    return [through_json(position.dump()) for position in positions]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
def test_positions_of_workers_are_put_together(order):
    position = load(dumps(*map(position_of, order)))
    assert (position.step, position.num_pipelines) == (3, 2)
    assert position.rows == {0: ({"at": 0}, 5), 1: ({"at": 1}, 5)}


def test_list_of_one_position_is_that_position():
    assert load(dumps(position_of(1))) == position_of(1)


def test_positions_of_different_steps_are_refused():
    message = r"saved after the same step. Received: positions after \[1, 2, 4\] step"
    states = dumps(*(position_of(i, step) for i, step in enumerate([4, 1, 2, 1])))
    with pytest.raises(ValueError, match=message):
        load(states)


def test_worker_that_had_no_more_may_be_behind():
    ended, other = position_of(0, 2, has_ended=True), position_of(1, 5)
    position = load(dumps(ended, other))
    assert (position.step, position.has_ended) == (5, False)
    assert set(position.rows) == {0, 1}


def test_worker_that_is_ahead_of_those_with_more_is_refused():
    states = dumps(position_of(0, 5, has_ended=True), position_of(1, 2))
    with pytest.raises(ValueError, match=r"after \[2, 5\] step"):
        load(states)


@pytest.mark.parametrize(
    "state",
    [None, {}, [], {"version": 0}, {"version": 1}, "text", 3, [None], [{}]],
    ids=repr,
)
def test_something_else_is_no_position(state):
    message = "must come from `save_state` of .*Received: "
    with pytest.raises(ValueError, match=message):
        load(state)


# One pipeline of several.


def test_position_in_a_pipeline_is_that_of_its_worker():
    assert position_of(1).of(1) == ({"at": 1}, 5)


def test_position_of_a_worker_that_is_missing_is_asked_for():
    message = (
        r"needs the positions of all workers. Received: none of worker 1 of 2. Save "
        r"`save_state\(\)` on every worker"
    )
    with pytest.raises(ValueError, match=message):
        position_of(0).of(1)


# As many pipelines.


@pytest.mark.parametrize("is_per_worker", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_as_many_pipelines_are_accepted(is_per_worker, count):
    require_pipelines(DatasetPosition(0, count, is_per_worker, {}), count)


@pytest.mark.parametrize(("saved", "count"), [(2, 1), (2, 3), (1, 2)])
def test_another_number_of_pipelines_is_refused(saved, count):
    message = rf"as many workers.*{saved} input pipeline\(s\), for {count}.*DATA.*FILE"
    with pytest.raises(ValueError, match=message):
        require_pipelines(DatasetPosition(0, saved, False, {}), count)
