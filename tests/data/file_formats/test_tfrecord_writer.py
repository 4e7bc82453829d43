"""What the writer writes is the format, and comes back."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.file_formats import TFRecordReader
from mirrax.data.file_formats.tfrecord import TFRecordWriter

# The records b"1-0" and b"", byte by byte.
GOLDEN = bytes.fromhex(
    "0300000000000000b099490e312d3006a2f8f0000000000000000029039807d8ea82a2"
)
every_compression = pytest.mark.parametrize(
    ("compression", "unpack"),
    [("", bytes), ("GZIP", gzip.decompress), ("ZLIB", zlib.decompress)],
    ids=["plain", "gzip", "zlib"],
)


@every_compression
def test_golden_bytes_are_written(tmp_path, compression, unpack):
    path = tmp_path / "file"
    with TFRecordWriter(path, compression) as writer:
        writer.write(b"1-0")
        writer.write(b"")
    assert unpack(path.read_bytes()) == GOLDEN


@every_compression
@given(records=st.lists(st.binary(max_size=300), max_size=20))
def test_records_round_trip(tmp_path_factory, compression, unpack, records):
    path = str(tmp_path_factory.mktemp("records") / "file")
    with TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
    assert TFRecordReader([path], compression).read(99) == records


def test_bytes_of_compressed_files_are_reproducible(tmp_path):
    for name in "ab":
        with TFRecordWriter(str(tmp_path / name), "GZIP") as writer:
            writer.write(b"record")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@every_compression
def test_flushed_records_can_be_read(tmp_path, compression, unpack):
    path = str(tmp_path / "file")
    with TFRecordWriter(path, compression) as writer:
        writer.write(b"one")
        writer.flush()
        reader = TFRecordReader([path], compression)
        assert reader.read(1) == [b"one"]


@pytest.mark.parametrize(
    "record", [bytearray(b"ab"), memoryview(b"ab")], ids=["bytearray", "memoryview"]
)
def test_bytes_like_records_are_written(tmp_path, record):
    path = str(tmp_path / "file")
    with TFRecordWriter(path) as writer:
        writer.write(record)
    assert TFRecordReader([path]).read(9) == [b"ab"]


@pytest.mark.parametrize("record", ["text", 7, None, [1]], ids=repr)
def test_other_records_are_refused(tmp_path, record):
    with (
        TFRecordWriter(str(tmp_path / "file")) as writer,
        pytest.raises(TypeError, match=r"must be bytes.*\.encode\(\)"),
    ):
        writer.write(record)


@pytest.mark.parametrize("method", ["write", "flush"])
def test_closed_writer_takes_nothing(tmp_path, method):
    writer = TFRecordWriter(str(tmp_path / "file"))
    writer.close()
    writer.close()
    arguments = {"write": [b""], "flush": []}[method]
    with pytest.raises(ValueError, match="closed file"):
        getattr(writer, method)(*arguments)


def test_unknown_compression_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="ZLIB"):
        TFRecordWriter(str(tmp_path / "file"), "SNAPPY")
    assert not (tmp_path / "file").exists()
