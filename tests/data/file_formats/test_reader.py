"""What all readers check."""

import pathlib

import pytest

from mirrax.data.file_formats import (
    FixedLengthReader,
    Reader,
    TextLineReader,
    TFRecordReader,
)
from mirrax.errors import DataLossError

MAKERS = [TFRecordReader, TextLineReader, lambda files: FixedLengthReader(files, 1)]
every_reader = pytest.mark.parametrize(
    "make", MAKERS, ids=["tfrecord", "text", "fixed"]
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\nb\n")
    return str(path)


@every_reader
def test_missing_file_is_found_at_once(make, text):
    with pytest.raises(FileNotFoundError, match=r"must exist .*Correct .*'/no/such'"):
        make([text, "/no/such"])


@every_reader
def test_folder_is_not_a_file(make, tmp_path):
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        make([str(tmp_path)]).read(1)


@every_reader
def test_reader_is_a_reader(make, text):
    assert isinstance(make([text]), Reader)


def test_paths_may_be_path_objects(text):
    assert TextLineReader([pathlib.Path(text)]).read(9) == [b"a", b"b"]


def test_unknown_compression_is_refused(text):
    with pytest.raises(ValueError, match=r"\"GZIP\" or \"ZLIB\".*'gzip'"):
        TextLineReader([text], "gzip")


@pytest.mark.parametrize("state", [[], [0], [2, 0], [0, -1], [-1, 0], [0, 0, 0]])
def test_state_must_fit_the_files(text, state):
    with pytest.raises((ValueError, TypeError)):
        TextLineReader([text]).restore(state)


@pytest.mark.parametrize("compression", ["", "GZIP"], ids=["plain", "gzip"])
def test_position_beyond_the_file_is_an_error(tmp_path, compression):
    path = tmp_path / "empty"
    path.write_bytes(b"")
    reader = TextLineReader([str(path)], compression)
    reader.restore([0, 5])
    with pytest.raises(DataLossError, match=r"byte 5 of .*has 0 bytes"):
        reader.read(1)


def test_read_files_are_closed(text, tmp_path):
    # An open file would be reported when it is collected: warnings are errors.
    reader = TextLineReader([text, text])
    assert reader.read(99) == [b"a", b"b", b"a", b"b"]
    assert reader.read(99) == []
    del reader
