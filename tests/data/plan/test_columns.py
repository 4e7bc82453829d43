"""Many elements at once, as columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.plan import columns as cols
from tests.data.plans import quick


def test_stack_makes_one_array_of_equal_rows():
    np.testing.assert_array_equal(cols.stack([[1, 2], [3, 4]]), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "rows",
    [[np.zeros(2), np.zeros(3)], [np.zeros(2), np.zeros(2, np.int32)]],
    ids=["shapes", "dtypes"],
)
def test_stack_keeps_unequal_rows_in_a_list(rows):
    assert isinstance(cols.stack(rows), list)


def test_stack_makes_strings_bytes_objects():
    column = cols.stack(["a", b"longer"])
    assert column.dtype == object
    assert column.tolist() == [b"a", b"longer"]


@quick
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_concatenate_keeps_every_row(lengths):
    parts = [[np.arange(n), np.ones((n, 2)) * n] for n in lengths]
    joined = cols.concatenate(parts)
    assert cols.num_rows(joined) == sum(lengths)
    assert joined[0].tolist() == [i for n in lengths for i in range(n)]


def test_concatenate_of_unequal_rows_is_a_list():
    (joined,) = cols.concatenate([[np.zeros((1, 2))], [np.zeros((2, 3))]])
    assert [row.shape for row in joined] == [(2,), (3,), (3,)]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (slice(1, None), [1, 2]),
        (np.array([2, 0]), [2, 0]),
        (np.array([True, False, True]), [0, 2]),
    ],
    ids=["slice", "numbers", "booleans"],
)
@pytest.mark.parametrize("kind", [np.array, list], ids=["array", "list"])
def test_select_takes_rows(kind, index, expected):
    (column,) = cols.select([kind([0, 1, 2])], index)
    assert list(column) == expected


def test_rows_and_columns_are_each_others_inverse():
    rows = [(1, np.zeros(2)), (2, np.ones(2))]
    back = cols.rows_of(cols.from_rows(rows))
    assert [row[0] for row in back] == [1, 2]
    np.testing.assert_array_equal([row[1] for row in back], [[0, 0], [1, 1]])
