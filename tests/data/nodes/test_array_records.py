"""ArrayRecord files, written by the real library."""

import pathlib

import pytest

from mirrax.data import ArrayRecordDataset, AutoShardPolicy
from mirrax.errors import DataLossError
from tests.data.plans import resumed
from tests.input.several import open_feeds, restore, rows_of, save, take_all, take_step

module = pytest.importorskip("array_record.python.array_record_module")


def write(path, records):
    writer = module.ArrayRecordWriter(str(path), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Three files; file `i` has `2 * i + 1` records."""
    return [
        write(
            tmp_path / f"{i}.array_record",
            [f"{i}.{j}".encode() for j in range(2 * i + 1)],
        )
        for i in range(3)
    ]


RECORDS = [f"{i}.{j}".encode() for i in range(3) for j in range(2 * i + 1)]


def test_records_come_in_the_order_of_the_files(files):
    assert list(ArrayRecordDataset(files)) == RECORDS


def test_the_number_of_records_is_known(files):
    assert len(ArrayRecordDataset(files)) == 9


def test_records_are_bytes(files):
    assert list(ArrayRecordDataset(files[0])) == [b"0.0"]


def test_a_shuffle_moves_numbers_and_resumes_at_once(files):
    def make():
        return ArrayRecordDataset(files).shuffle(9, seed=1).repeat(2).batch(2)

    for position in range(9):
        rest, other = resumed(make, position)
        assert other == rest
    iterator = iter(make())
    next(iterator)
    assert len(str(iterator.save_state())) < 200


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_workers_share_the_files_and_go_on(files, workers, after):
    def make():
        return ArrayRecordDataset(files).shuffle(9, seed=1).batch(3)

    feeds = open_feeds(make, AutoShardPolicy.AUTO, workers)
    first = take_step(feeds)
    others = open_feeds(make, AutoShardPolicy.AUTO, after)
    restore(others, save(feeds))
    assert sorted(rows_of([first]) + rows_of(take_all(others))) == sorted(RECORDS)


def test_fewer_files_than_workers_are_refused(files):
    with pytest.raises(ValueError, match=r"3 file\(s\) for 4 workers"):
        open_feeds(lambda: ArrayRecordDataset(files).batch(2), AutoShardPolicy.FILE, 4)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(ArrayRecordDataset(str(tmp_path / "nowhere")))


def test_a_truncated_file_is_named(tmp_path, files):
    with open(files[2], "r+b") as file:
        file.truncate(300)
    with pytest.raises(DataLossError, match=r"2\.array_record': it is no complete"):
        list(ArrayRecordDataset(files))


def test_what_comes_before_a_damaged_record_arrives(tmp_path):
    path = write(tmp_path / "a", [f"record {i}".encode() for i in range(9)])
    data = bytearray(pathlib.Path(path).read_bytes())
    data[data.index(b"record 5")] ^= 255
    pathlib.Path(path).write_bytes(data)
    iterator = iter(ArrayRecordDataset(path))
    assert [next(iterator) for _ in range(5)] == [
        f"record {i}".encode() for i in range(5)
    ]
    with pytest.raises(DataLossError, match=r"hash mismatch.*records \[5\]"):
        next(iterator)
