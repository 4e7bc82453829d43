"""Elements in groups that are datasets themselves."""

import pytest

from mirrax.data import Dataset
from tests.data.plans import ragged, values


def test_windows_are_datasets():
    windows = Dataset.range(7).window(3)
    assert [values(window) for window in windows] == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"size": 3, "drop_remainder": True}, [[0, 1, 2], [3, 4, 5]]),
        ({"size": 2, "shift": 3}, [[0, 1], [3, 4], [6]]),
        (
            {"size": 3, "shift": 1, "stride": 2, "drop_remainder": True},
            [[0, 2, 4], [1, 3, 5], [2, 4, 6]],
        ),
    ],
    ids=["drop", "shift", "stride"],
)
def test_windows_move_as_told(arguments, expected):
    assert [values(w) for w in Dataset.range(7).window(**arguments)] == expected


def test_windows_are_elements_of_a_dataset():
    windows = Dataset.range(4).window(2, shift=1, drop_remainder=True)
    flat = windows.flat_map(lambda window: window.batch(2))
    assert values(flat) == [[0, 1], [1, 2], [2, 3]]


def test_windows_read_no_further_than_they_must():
    read = []
    dataset = Dataset.range(100).filter(lambda x: read.append(int(x)) or True)
    first = next(iter(dataset.window(2)))
    assert values(first) == [0, 1]
    assert len(read) < 10


def test_structures_give_a_dataset_for_each_leaf():
    dataset = Dataset.from_tensor_slices({"a": [1, 2, 3], "b": ([4, 5, 6],)})
    flat = dataset.window(2).flat_map(
        lambda window: Dataset.zip(window["a"].batch(2), window["b"][0])
    )
    assert [(x.tolist(), int(y)) for x, y in flat] == [([1, 2], 4), ([3], 6)]


def test_elements_of_different_shapes_make_a_window():
    windows = ragged(1, 3, 2).window(2)
    assert [values(window) for window in windows] == [[[1], [3, 3, 3]], [[2, 2]]]
    padded = windows.flat_map(lambda window: window.padded_batch(2))
    assert values(padded)[0] == [[1, 0, 0], [3, 3, 3]]


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("count", [0, 1, 4, 9])
@pytest.mark.parametrize(("size", "shift", "stride"), [(3, 3, 1), (2, 1, 3), (1, 4, 1)])
def test_the_number_of_windows_is_known(count, size, shift, stride, drop):
    windows = Dataset.range(count).window(size, shift, stride, drop)
    assert windows.cardinality() == len(list(windows))
