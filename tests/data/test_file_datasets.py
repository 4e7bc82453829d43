"""Datasets of files: their names, and how many are read at once."""

import numpy as np
import pytest

import mirrax
from mirrax.data import (
    Dataset,
    FixedLengthRecordDataset,
    TextLineDataset,
    TFRecordDataset,
    TFRecordWriter,
)


@pytest.fixture
def names(tmp_path):
    """Three files of records, which are lines at the same time."""
    for name in "abc":
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(3)))
    return sorted(str(path) for path in tmp_path.iterdir())


@pytest.fixture
def records(tmp_path):
    paths = [str(tmp_path / name) for name in "xy"]
    for path in paths:
        with TFRecordWriter(path) as writer:
            for i in range(2):
                writer.write(f"{path[-1]}{i}".encode())
    return paths


def test_files_are_read_one_after_another(names):
    assert list(TextLineDataset(names))[2:4] == [b"a2", b"b0"]


def test_files_take_turns_if_several_are_read_at_once(names):
    dataset = TextLineDataset(names, num_parallel_reads=2)
    assert list(dataset) == [
        *(b"a0", b"b0", b"a1", b"b1", b"a2", b"b2"),
        *(b"c0", b"c1", b"c2"),
    ]


@pytest.mark.parametrize("reads", [1, 2, -1])
def test_records_of_several_files_are_complete(records, reads):
    dataset = TFRecordDataset(records, num_parallel_reads=reads)
    assert sorted(dataset) == [b"x0", b"x1", b"y0", b"y1"]


def test_records_of_one_length_can_be_read_at_once(names):
    dataset = FixedLengthRecordDataset(names, 3, num_parallel_reads=3)
    assert list(dataset)[:3] == [b"a0\n", b"b0\n", b"c0\n"]


def test_a_dataset_of_names_is_shuffled_anew_at_each_iteration(names):
    files = Dataset.from_tensor_slices(names).shuffle(3, seed=1)
    dataset = TextLineDataset(files)
    orders = {tuple(line[:1] for line in dataset) for _ in range(8)}
    assert len(orders) > 1


def test_a_dataset_of_names_may_be_endless(names):
    dataset = TextLineDataset(Dataset.from_tensor_slices(names).repeat())
    assert len(list(dataset.take(30))) == 30


@pytest.mark.parametrize("name", [str, str.encode], ids=["text", "bytes"])
def test_one_name_is_enough(names, name):
    assert list(TextLineDataset(name(names[0]))) == [b"a0", b"a1", b"a2"]


def test_a_path_object_is_a_name(tmp_path, names):
    assert list(TextLineDataset(tmp_path / "a")) == [b"a0", b"a1", b"a2"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(TextLineDataset(str(tmp_path / "nowhere")))


@pytest.mark.parametrize("dtype", [">i4", ">f8", "<u2"])
def test_saved_elements_keep_their_values_in_any_byte_order(tmp_path, dtype):
    values = np.array([1, 2, 300], dtype)
    mirrax.data.Dataset.from_tensor_slices(values).save(str(tmp_path / "saved"))
    loaded = mirrax.data.Dataset.load(str(tmp_path / "saved"))
    assert [int(x) for x in loaded] == [1, 2, 300]
