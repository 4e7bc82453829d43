"""Sharing a dataset between workers, without workers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import (
    SHARD_HINT,
    UNKNOWN_CARDINALITY,
    AutoShardPolicy,
    Dataset,
    TextLineDataset,
)
from mirrax.input.auto_shard import auto_shard, resolve_policy
from tests.data.plans import quick

BY_FILE = AutoShardPolicy.FILE
NOT_BY_FILE = [AutoShardPolicy.DATA, AutoShardPolicy.OFF, AutoShardPolicy.HINT]
WORKERS = st.integers(1, 5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Seven files of lines: file `i` has `i` of them."""
    folder = tmp_path_factory.mktemp("files")
    for i in range(7):
        (folder / str(i)).write_text("".join(f"{i}{j}\n" for j in range(i)))
    return [str(folder / str(i)) for i in range(7)]


LINES = sorted(f"{i}{j}".encode() for i in range(7) for j in range(i))


def shares(dataset, policy, workers):
    """Returns the elements of each worker."""
    plans = [auto_shard(dataset.plan, policy, workers, i) for i in range(workers)]
    return [list(Dataset(plan)) for plan in plans]


def rows(parts):
    return [row for part in parts for element in part for row in np.ravel(element)]


STEPS = {
    "plain": lambda d: d,
    "batch": lambda d: d.batch(4),
    "shuffle": lambda d: d.shuffle(3, seed=1).batch(2),
    "map": lambda d: d.map(lambda x: x).prefetch(2),
    "filter": lambda d: d.filter(lambda x: True).batch(3),
    "cache": lambda d: d.cache().batch(2),
}


@pytest.mark.parametrize("then", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize(
    "policy", [BY_FILE, AutoShardPolicy.AUTO], ids=["file", "auto"]
)
@quick
@given(workers=WORKERS)
def test_shares_of_files_are_disjoint_and_complete(files, then, policy, workers):
    parts = shares(then(TextLineDataset(files)), policy, workers)
    assert sorted(rows(parts)) == LINES


@pytest.mark.parametrize(
    "policy", [*NOT_BY_FILE, AutoShardPolicy.AUTO], ids=lambda policy: policy.name
)
def test_what_is_not_shared_by_files_is_read_by_every_worker(policy):
    parts = shares(Dataset.range(4).batch(2), policy, 3)
    assert rows(parts) == [0, 1, 2, 3] * 3


@pytest.mark.parametrize("index", range(4))
def test_fewer_files_than_workers_are_refused_on_every_worker(files, index):
    dataset = TextLineDataset(files[:3]).batch(2)
    with pytest.raises(ValueError, match=r"3 file\(s\) for 4 workers"):
        auto_shard(dataset.plan, BY_FILE, 4, index)


def test_fewer_files_are_refused_before_anything_is_read():
    with pytest.raises(ValueError, match=r"1 file\(s\) for 2 workers"):
        auto_shard(TextLineDataset("/no/such/file").plan, BY_FILE, 2, 0)


def test_sharing_files_needs_files():
    with pytest.raises(ValueError, match="needs a dataset that reads files"):
        auto_shard(Dataset.range(4).plan, BY_FILE, 2, 0)


@pytest.mark.parametrize(
    "policy", [BY_FILE, AutoShardPolicy.AUTO], ids=["file", "auto"]
)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_interleaved_files_are_shared_by_file(files, policy, workers):
    dataset = Dataset.from_tensor_slices(files).interleave(TextLineDataset).batch(4)
    parts = shares(dataset, policy, workers)
    assert sorted(rows(parts)) == LINES
    owners = [{row[:1] for row in rows([part])} for part in parts]
    assert sum(len(owned) for owned in owners) == 6


def test_each_worker_numbers_the_lines_of_its_own_files(files):
    parts = shares(TextLineDataset(files).enumerate(), BY_FILE, 2)
    assert sorted(line for part in parts for _, line in part) == LINES
    assert [int(number) for number, _ in parts[0]] == list(range(len(parts[0])))


def test_a_cache_that_is_full_is_not_read_in_place_of_a_share(files):
    dataset = TextLineDataset(files).cache()
    list(dataset)
    assert sorted(rows(shares(dataset, BY_FILE, 2))) == LINES


def test_data_that_are_not_in_files_are_not_doubled(files):
    mixed = TextLineDataset(files).concatenate(Dataset.from_tensor_slices([b"other"]))
    with pytest.raises(ValueError, match="files"):
        auto_shard(mixed.plan, BY_FILE, 2, 0)


def test_sharing_changes_only_the_copy(files):
    dataset = TextLineDataset(files)
    auto_shard(dataset.plan, BY_FILE, 2, 0)
    assert sorted(dataset) == LINES


def test_a_cache_in_a_file_is_another_file_for_each_worker(files, tmp_path):
    dataset = TextLineDataset(files).cache(str(tmp_path / "kept"))
    for _ in range(2):
        assert sorted(rows(shares(dataset, BY_FILE, 2))) == LINES
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kept.0-of-2",
        "kept.1-of-2",
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(AutoShardPolicy.AUTO, BY_FILE), (AutoShardPolicy.OFF, AutoShardPolicy.OFF)],
    ids=["auto", "off"],
)
def test_auto_means_files_where_there_are_any(files, policy, expected):
    interleaved = Dataset.from_tensor_slices(files).interleave(TextLineDataset)
    assert resolve_policy(interleaved.batch(2).plan, policy) is expected


@pytest.mark.parametrize(
    "mixed",
    [
        lambda d: d.enumerate(),
        lambda d: Dataset.zip((d, Dataset.range(21))),
        lambda d: d.concatenate(Dataset.from_tensor_slices([b"other"])),
    ],
    ids=["enumerate", "zip", "concatenate"],
)
def test_auto_means_data_where_not_all_data_are_in_files(files, mixed):
    plan = mixed(TextLineDataset(files)).batch(2).plan
    assert resolve_policy(plan, AutoShardPolicy.AUTO) is AutoShardPolicy.DATA


def test_auto_means_data_where_there_are_no_files():
    plan = Dataset.range(4).plan
    assert resolve_policy(plan, AutoShardPolicy.AUTO) is AutoShardPolicy.DATA


HINTED = {
    "first": lambda d: d.shard(SHARD_HINT, SHARD_HINT).batch(2),
    "after_others": lambda d: d.map(lambda x: x).shard(SHARD_HINT, SHARD_HINT),
    "cached": lambda d: d.shard(SHARD_HINT, SHARD_HINT).cache().repeat(1),
}


@pytest.mark.parametrize("then", HINTED.values(), ids=HINTED.keys())
def test_a_hint_becomes_the_shard_of_each_worker(then):
    found = shares(then(Dataset.range(7)), AutoShardPolicy.HINT, 3)
    assert [rows([part]) for part in found] == [[0, 3, 6], [1, 4], [2, 5]]


def test_a_hint_that_no_policy_fills_in_is_refused():
    hinted = Dataset.range(4).shard(SHARD_HINT, SHARD_HINT)
    with pytest.raises(RuntimeError, match="which a strategy fills in"):
        list(hinted)
    assert hinted.cardinality() == UNKNOWN_CARDINALITY
