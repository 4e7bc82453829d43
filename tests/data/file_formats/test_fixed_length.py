"""Records of one size, between a header and a footer."""

import gzip
import zlib

import pytest

from mirrax.data.file_formats import FixedLengthReader
from mirrax.errors import DataLossError

PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def read_all(reader, limit=2):
    return [
        record for chunk in iter(lambda: reader.read(limit), []) for record in chunk
    ]


@pytest.mark.parametrize(
    ("data", "header", "footer", "records"),
    [
        (b"", 0, 0, []),
        (b"aaabbb", 0, 0, [b"aaa", b"bbb"]),
        (b"HHaaabbb", 2, 0, [b"aaa", b"bbb"]),
        (b"aaabbbFFFF", 0, 4, [b"aaa", b"bbb"]),
        (b"HHHHHHHaaaF", 7, 1, [b"aaa"]),
        (b"HHFF", 2, 2, []),
    ],
    ids=["empty", "bare", "header", "footer", "both", "no_records"],
)
def test_records_are_cut(save, block_bytes, compression, data, header, footer, records):
    file = save(PACK[compression](data))
    reader = FixedLengthReader([file, file], 3, header, footer, compression)
    assert read_all(reader) == records * 2


def test_state_restores_every_record(save, block_bytes, compression):
    pack = PACK[compression]
    files = [save(pack(data)) for data in (b"HHaaabbbF", b"HHF", b"HHcccF")]
    records = [b"aaa", b"bbb", b"ccc"]
    reader = FixedLengthReader(files, 3, 2, 1, compression)
    for index in range(len(records) + 1):
        other = FixedLengthReader(files, 3, 2, 1, compression)
        other.restore(reader.state())
        assert read_all(other) == records[index:]
        reader.read(1)
    assert reader.read(1) == []


@pytest.mark.parametrize("size", [0, 1, 3, 4, 6, 7])
def test_size_that_does_not_fit_is_an_error(save, compression, size):
    file = save(PACK[compression](bytes(size)))
    with pytest.raises(
        DataLossError, match=rf"0\.bin' with {size} bytes.* leave {size - 2} .*=3\."
    ):
        read_all(FixedLengthReader([file], 3, 1, 1, compression))


def test_no_record_comes_from_a_file_that_does_not_fit(save):
    with pytest.raises(DataLossError, match="7 bytes"):
        FixedLengthReader([save(b"aaa"), save(b"bbbccc?")], 3)


@pytest.mark.parametrize(
    "sizes", [(0, 0, 0), (1, -1, 0), (1, 0, -1)], ids=["record", "header", "footer"]
)
def test_sizes_must_make_sense(sizes):
    with pytest.raises(ValueError, match="at least one byte"):
        FixedLengthReader([], *sizes)
