"""The two rules by which batches are divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from mirrax.input.batch_rows import (
    Share,
    batch_size_of,
    even_sizes,
    sizes_at,
    split_batch,
)
from tests.data.plans import quick

SIZES = st.integers(0, 40)
REPLICAS = st.integers(1, 9)


@pytest.mark.parametrize(
    ("size", "replicas", "expected"),
    [(9, 4, [3, 3, 3, 0]), (6, 2, [3, 3]), (5, 4, [2, 2, 1, 0]), (0, 2, [0, 0])],
    ids=str,
)
def test_a_batch_is_cut_from_the_front(size, replicas, expected):
    assert [s.stop - s.start for s in split_batch(size, replicas)] == expected


@quick
@given(SIZES, REPLICAS)
def test_pieces_are_the_whole(size, replicas):
    rows = list(range(size))
    pieces = split_batch(size, replicas)
    assert len(pieces) == replicas
    assert [row for piece in pieces for row in rows[piece]] == rows


@quick
@given(SIZES, REPLICAS)
def test_even_sizes_differ_by_at_most_one(size, replicas):
    parts = even_sizes(size, replicas)
    assert len(parts) == replicas
    assert sum(parts) == size
    assert max(parts) - min(parts) <= 1
    assert list(parts) == sorted(parts, reverse=True)


@quick
@given(SIZES, st.integers(1, 5), st.integers(1, 3), st.integers(0, 9))
def test_the_sizes_of_a_step_make_a_batch(size, workers, replicas, step):
    shares = [Share(workers, i, replicas) for i in range(workers)]
    sizes = [sizes_at(step, size, share) for share in shares]
    assert sum(map(sum, sizes)) == size


@quick
@given(SIZES, st.integers(1, 5), st.integers(1, 3))
def test_every_worker_gets_as_much_as_the_others_in_time(size, workers, replicas):
    totals = {
        sum(
            sum(sizes_at(step, size, Share(workers, i, replicas)))
            for step in range(workers)
        )
        for i in range(workers)
    }
    assert totals == {size}


def test_sizes_go_round_on_each_worker():
    sizes = [[sizes_at(t, 5, Share(2, i))[0] for t in range(4)] for i in range(2)]
    assert sizes == [[3, 2, 3, 2], [2, 3, 2, 3]]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.range(9).batch(4), 4),
        (Dataset.range(9).batch(4).repeat(2).shuffle(3).prefetch(1), 4),
        (Dataset.zip([Dataset.range(9).batch(4)] * 2), 4),
        (Dataset.range(9).batch(4).map(lambda x: x), None),
        (Dataset.range(9).batch(4, drop_remainder=True).map(lambda x: x), 4),
        (Dataset.range(9).padded_batch(3), 3),
        (Dataset.range(9).batch(2).rebatch(5), None),
        (Dataset.range(9).batch(2).concatenate(Dataset.range(9).batch(2)), 2),
        (Dataset.range(9).batch(2).concatenate(Dataset.range(9).batch(3)), None),
        (Dataset.range(9).batch(2).unbatch(), None),
        (Dataset.from_tensors([1, 2, 3]), 3),
    ],
    ids=[
        "batch",
        "passed",
        "zip",
        "map",
        "static",
        "padded",
        "rebatch",
        "same",
        "other",
        "unbatch",
        "tensors",
    ],
)
def test_the_batch_size_is_what_tensorflow_finds(dataset, expected):
    assert batch_size_of(dataset.plan) == expected
