"""Which elements come, and how often."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset, TFRecordDataset, TFRecordWriter
from tests.data import fuzzing
from tests.data.plans import counts, quick, sizes, sources, values


@sources
@quick
@given(count=counts, shards=sizes)
def test_shards_are_disjoint_and_complete(source, count, shards):
    parts = [values(source(count).shard(shards, i)) for i in range(shards)]
    assert parts == [list(range(count))[i::shards] for i in range(shards)]


@sources
@quick
@given(count=counts, start=counts, length=counts)
def test_skip_and_take_are_slices(source, count, start, length):
    expected = list(range(count))[start:][:length]
    assert values(source(count).skip(start).take(length)) == expected


@sources
def test_take_minus_one_takes_all(source):
    assert values(source(3).take(-1)) == [0, 1, 2]


@sources
def test_skip_minus_one_skips_all(source):
    assert values(source(3).skip(-1)) == []


@sources
@quick
@given(count=counts, times=st.integers(0, 4))
def test_repeat_gives_all_again(source, count, times):
    assert values(source(count).repeat(times)) == list(range(count)) * times


@sources
def test_repeating_without_a_count_never_ends(source):
    assert values(source(2).repeat().take(5)) == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.shuffle(0), "`buffer_size` must be at least 1"),
        (lambda d: d.shard(2, 2), "`index` must be one of the shards"),
        (lambda d: d.shard(2, -1), "`index` must be one of the shards"),
        (lambda d: d.shard(0, 0), "shards"),
    ],
    ids=["buffer", "too far", "negative", "none"],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(Dataset.range(3))


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.range(5).shard(3, 1), 2),
        (Dataset.range(1).shard(3, 2), 0),
        (Dataset.range(5).skip(7), 0),
        (Dataset.range(5).take(3).repeat(2), 6),
        (Dataset.range(5).repeat(), -1),
        (Dataset.range(5).repeat().take(3), 3),
        (Dataset.range(0).repeat(), 0),
        (Dataset.range(5).filter(bool).shuffle(2), -2),
    ],
    ids=["shard", "short", "skip", "take", "infinite", "finite", "empty", "unknown"],
)
def test_cardinality_follows_the_order(dataset, expected):
    assert dataset.cardinality() == expected


def test_numbers_of_numpy_are_counts_too():
    dataset = Dataset.range(9).skip(np.int64(1)).take(np.int64(3)).repeat(np.int64(2))
    assert values(dataset) == [1, 2, 3, 1, 2, 3]


def test_skipped_records_are_not_all_in_memory(tmp_path):
    file = str(tmp_path / "records")
    with TFRecordWriter(file) as writer:
        for i in range(600):
            writer.write(bytes([i % 256]) * 100_000)
    with fuzzing.limits(megabytes=40):
        first = next(iter(TFRecordDataset(file).skip(500)))
    assert first == bytes([500 % 256]) * 100_000
