"""The rows of batches, one after another."""

import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.errors import InvalidArgumentError
from mirrax.input.batch_rows import (
    BatchRowReader,
    join_rows,
    not_batched_error,
    num_rows,
    slice_rows,
)
from tests.data.plans import ragged, through_json


def opened(dataset):
    return BatchRowReader(iter(dataset))


def drained(source, limit):
    """Returns the rest, so many rows at a time."""
    found = []
    while source.fill():
        found.append(source.take_rows(limit).tolist())
        assert len(found) < 100, "The rows have no end."
    return found


# One after another.


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, [[0], [1], [2], [3], [4]]),
        (2, [[0, 1], [2], [3, 4]]),
        (3, [[0, 1, 2], [3, 4]]),
        (9, [[0, 1, 2], [3, 4]]),
    ],
)
def test_rows_come_at_most_so_many_at_a_time_and_of_one_batch(limit, expected):
    assert drained(opened(Dataset.range(5).batch(3)), limit) == expected


def test_empty_dataset_has_no_rows():
    source = opened(Dataset.range(0).batch(3))
    assert not source.fill()
    assert not source.fill()


def test_batches_without_rows_are_passed_over():
    source = opened(ragged(0, 2, 0, 0, 1, 0))
    assert drained(source, 5) == [[2, 2], [1]]


def test_asking_for_rows_takes_none():
    source = opened(Dataset.range(4).batch(2))
    assert all(source.fill() for _ in range(5))
    assert source.take_rows(1).tolist() == [0]


def test_rows_of_nested_batches_stay_together():
    arrays = {"a": np.arange(3), "b": (np.arange(6).reshape(3, 2), None)}
    source = opened(Dataset.from_tensor_slices(arrays).batch(3))
    assert source.fill()
    source.take_rows(1)
    part = source.take_rows(1)
    assert part["a"].tolist() == [1]
    assert part["b"][0].tolist() == [[2, 3]]
    assert part["b"][1] is None


def test_batch_size_is_that_of_the_whole_batch_at_hand():
    source = opened(Dataset.range(5).batch(3))
    sizes = []
    for _ in range(5):
        assert source.fill()
        sizes.append(source.batch_size)
        source.take_rows(1)
    assert sizes == [3, 3, 3, 2, 2]


def test_no_rows_are_like_those_at_hand():
    batch = {"x": np.ones((4, 3), np.float16)}
    source = opened(Dataset.from_tensor_slices(batch).batch(4))
    assert source.fill()
    nothing = source.take_rows(0)["x"]
    assert (nothing.shape, nothing.dtype) == ((0, 3), np.float16)
    assert source.take_rows(9)["x"].shape == (4, 3)


# Positions.


def make():
    return Dataset.range(11).shuffle(11, seed=4).batch(4)


@pytest.mark.parametrize("used", range(12))
def test_position_of_the_next_row_can_be_gone_to(used):
    source = opened(make())
    for _ in range(used):
        assert source.fill()
        source.take_rows(1)
    state = through_json(source.state())
    other = opened(make())
    other.restore(state)
    assert drained(other, 3) == drained(source, 3)


def test_position_is_kept_by_looking_for_rows():
    source = opened(make())
    before = drained(opened(make()), 1)
    source.fill()
    other = opened(make())
    other.restore(source.state())
    assert drained(other, 1) == before


def test_position_at_the_end_has_no_rows():
    source = opened(Dataset.range(3).batch(2))
    drained(source, 2)
    other = opened(Dataset.range(3).batch(2))
    other.restore(source.state())
    assert not other.fill()


def test_position_replaces_what_is_at_hand():
    source = opened(Dataset.range(6).batch(3))
    start = source.state()
    source.fill()
    source.take_rows(2)
    source.restore(start)
    assert drained(source, 3) == [[0, 1, 2], [3, 4, 5]]


# Batches.


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (np.ones((3, 2)), 3),
        ({"a": np.ones(4), "b": (np.ones((4, 1)), None)}, 4),
        (np.ones((0, 2)), 0),
        (None, 0),
        ((), 0),
    ],
    ids=["array", "nested", "empty", "none", "no arrays"],
)
def test_rows_of_a_batch_are_counted(batch, expected):
    assert num_rows(batch) == expected


def test_arrays_of_unequal_length_are_no_batch():
    message = r"same number of rows. Received: \[2, 3\]"
    with pytest.raises(InvalidArgumentError, match=message):
        num_rows([np.ones(3), np.ones((2, 3)), np.ones(3)])


@pytest.mark.parametrize(
    "batch", [1.0, b"text", [np.ones(2), np.float32(1)]], ids=["number", "text", "one"]
)
def test_scalars_are_no_batch(batch):
    message = r"so they must be batches. Received: elements with scalars, \[.*\(\)"
    with pytest.raises(IndexError, match=message):
        num_rows(batch)


def test_error_says_how_to_make_batches():
    error = not_batched_error("what was there")
    assert isinstance(error, IndexError)
    assert "Received: elements with scalars, what was there. Call `batch`" in str(error)


def test_rows_are_cut_from_every_array():
    found = slice_rows({"a": np.arange(4), "b": [np.eye(4)]}, slice(1, 3))
    assert found["a"].tolist() == [1, 2]
    assert found["b"][0].shape == (2, 4)


def test_pieces_are_joined_in_order():
    pieces = [{"x": np.arange(2)}, {"x": np.arange(0)}, {"x": np.array([7])}]
    assert join_rows(pieces)["x"].tolist() == [0, 1, 7]


def test_one_piece_is_not_copied():
    piece = {"x": np.arange(2)}
    assert join_rows([piece]) is piece


def test_joined_pieces_keep_dtype_and_structure():
    piece = (np.ones((2, 3), np.int8), None)
    joined = join_rows([piece, piece])
    assert (joined[0].shape, joined[0].dtype) == ((4, 3), np.int8)
    assert joined[1] is None
