"""Parquet files, written by the real library."""

import numpy as np
import pytest

from mirrax.data import AutoShardPolicy, ParquetDataset
from mirrax.errors import DataLossError
from mirrax.values.tensor_spec import TensorSpec
from tests.data.plans import elements, plain, resumed
from tests.input.several import open_feeds, restore, save

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path, table, rows_per_group=4):
    parquet.write_table(pyarrow.table(table), str(path), row_group_size=rows_per_group)
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Three files of 10 rows each, in groups of 4."""
    return [
        write(
            tmp_path / f"{i}.parquet",
            {"x": np.arange(10 * i, 10 * i + 10), "t": [str(j) for j in range(10)]},
        )
        for i in range(3)
    ]


def numbers(dataset):
    return [int(row["x"]) for row in dataset]


def test_rows_are_dictionaries(files):
    first, *_ = elements(ParquetDataset(files))
    assert first == {"x": ("<i8", 0), "t": ("|S1", b"0")}


def test_rows_come_in_the_order_of_the_files(files):
    assert numbers(ParquetDataset(files)) == list(range(30))
    assert len(ParquetDataset(files)) == 30


def test_batches_go_across_groups_and_files(files):
    batches = [batch["x"].tolist() for batch in ParquetDataset(files).batch(7)]
    assert batches[1] == [7, 8, 9, 10, 11, 12, 13]


def test_columns_can_be_chosen(files):
    dataset = ParquetDataset(files, columns=["t"])
    assert list(next(iter(dataset))) == ["t"]
    assert list(dataset.element_spec) == ["t"]


def test_a_column_that_is_not_there_is_named(files):
    with pytest.raises(ValueError, match=r"\['z'\] for .*0\.parquet"):
        next(iter(ParquetDataset(files, columns=["z"])))


def test_the_spec_is_that_of_the_file(tmp_path):
    path = write(
        tmp_path / "a",
        {
            "f": np.ones(2, np.float32),
            "l": pyarrow.array([[1, 2], [3]]),
            "v": pyarrow.array([[1, 2], [3, 4]], pyarrow.list_(pyarrow.int32(), 2)),
            "b": [b"x", b"y"],
        },
    )
    assert ParquetDataset(path).element_spec == {
        "b": TensorSpec((), object),
        "f": TensorSpec((), np.float32),
        "l": TensorSpec((None,), np.int64),
        "v": TensorSpec((2,), np.int32),
    }
    (batch,) = ParquetDataset(path, columns=["f", "v"]).batch(2)
    assert plain(batch) == {
        "f": ("<f4", [1.0, 1.0]),
        "v": ("<i4", [[1, 2], [3, 4]]),
    }
    (padded,) = ParquetDataset(path, columns=["l"]).padded_batch(2)
    assert padded["l"].tolist() == [[1, 2], [3, 0]]


@pytest.mark.parametrize("position", [0, 1, 3, 4, 9, 10, 29, 30])
def test_a_position_resumes_identically(files, position):
    rest, other = resumed(lambda: ParquetDataset(files), position)
    assert other == rest
    assert len(rest) == 30 - position


@pytest.mark.parametrize("after", [1, 2, 3])
def test_workers_share_the_files_and_go_on(files, after):
    def make():
        return ParquetDataset(files, columns=["x"]).batch(6)

    def take(feeds):
        steps = [feed.step() for feed in feeds]
        parts = [part for step in steps for part in step or ()]
        return [int(x) for part in parts for x in part["x"]]

    feeds = open_feeds(make, AutoShardPolicy.AUTO, 2)
    seen = take(feeds)
    others = open_feeds(make, AutoShardPolicy.AUTO, after)
    restore(others, save(feeds))
    while more := take(others):
        seen += more
    assert sorted(seen) == list(range(30))


def test_missing_values_are_an_error(tmp_path):
    path = write(tmp_path / "a", {"x": [1, None]})
    with pytest.raises(ValueError, match=r"1 missing value.*'x'"):
        list(ParquetDataset(path))


def test_a_column_that_is_no_array_is_named(tmp_path):
    path = write(tmp_path / "a", {"d": [{"k": 1}]})
    with pytest.raises(ValueError, match="must hold numbers, strings or lists"):
        list(ParquetDataset(path))


def test_a_truncated_file_is_named(files):
    with open(files[1], "r+b") as file:
        file.truncate(100)
    iterator = iter(ParquetDataset(files))
    assert [int(next(iterator)["x"]) for _ in range(10)] == list(range(10))
    with pytest.raises(DataLossError, match=r"1\.parquet"):
        next(iterator)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(ParquetDataset(str(tmp_path / "nowhere")))
