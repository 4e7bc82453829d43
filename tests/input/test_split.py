"""The two rules by which batches are divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import AutoShardPolicy, Dataset, TextLineDataset
from mirrax.input.split import batch_size_of, even_sizes, rebatch_sizes, split_batch
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


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (AutoShardPolicy.AUTO, None),
        (AutoShardPolicy.DATA, None),
        (AutoShardPolicy.OFF, (3, 2, 2, 2)),
        (AutoShardPolicy.FILE, (3, 2, 2, 2)),
        (AutoShardPolicy.HINT, (3, 2, 2, 2)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_policy_picks_the_rule(policy, expected):
    assert rebatch_sizes(Dataset.range(9).batch(9).plan, policy, 4) == expected


def test_auto_picks_even_parts_for_files():
    plan = TextLineDataset("a").batch(9).plan
    assert rebatch_sizes(plan, AutoShardPolicy.AUTO, 4) == (3, 2, 2, 2)


def test_auto_picks_even_parts_for_interleaved_files(tmp_path):
    (tmp_path / "a").write_text("x\n")
    names = Dataset.list_files(str(tmp_path / "*"))
    plan = names.interleave(TextLineDataset).batch(9).plan
    assert rebatch_sizes(plan, AutoShardPolicy.AUTO, 4) == (3, 2, 2, 2)


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.range(9).batch(4), 4),
        (Dataset.range(9).batch(4).map(lambda x: x).repeat(2).prefetch(1), 4),
        (Dataset.range(9).padded_batch(3), 3),
        (Dataset.range(9).batch(2).rebatch(5), 5),
        (Dataset.range(9).batch(2).concatenate(Dataset.range(9).batch(2)), 2),
        (Dataset.range(9).batch(2).concatenate(Dataset.range(9).batch(3)), None),
        (Dataset.range(9).batch(2).unbatch(), None),
        (Dataset.from_tensors([1, 2, 3]), None),
    ],
    ids=["batch", "passed", "padded", "rebatch", "same", "other", "unbatch", "none"],
)
def test_the_batch_size_is_found_in_the_plan(dataset, expected):
    assert batch_size_of(dataset.plan) == expected
