"""TFRecord files: every record, every position, every kind of damage."""

import gzip
import itertools
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.file_formats import TFRecordReader
from mirrax.data.file_formats.tfrecord import masked_crc
from mirrax.errors import DataLossError

# The records b"1-0" and b"", byte by byte.
GOLDEN = bytes.fromhex(
    "0300000000000000"  # length
    "b099490e"  # its checksum
    "312d30"  # data
    "06a2f8f0"  # their checksum
    "0000000000000000"
    "29039807"
    "d8ea82a2"
)
RECORDS = [b"1-0", b"", b"a longer record", b"\0" * 40]
PACK = {
    "": bytes,
    "GZIP": lambda data: gzip.compress(data, mtime=0),
    "ZLIB": zlib.compress,
}


def crc32c(data):
    """The checksum, bit by bit: slow, and independent of the library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0x82F63B78 if crc & 1 else crc >> 1
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    mask = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", mask)


def frame(record):
    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


FILE = b"".join(map(frame, RECORDS))
ENDS = list(itertools.accumulate(len(frame(record)) for record in RECORDS))


def read_all(reader, limit=3):
    """All records, and the error that ended them, if any."""
    found = []
    try:
        while chunk := reader.read(limit):
            found += chunk
    except DataLossError as error:
        return found, error
    return found, None


def test_golden_bytes_are_read(save):
    assert TFRecordReader([save(GOLDEN)]).read(9) == [b"1-0", b""]


def test_hand_written_frames_are_the_golden_bytes():
    assert frame(b"1-0") + frame(b"") == GOLDEN


@given(st.binary(max_size=100))
def test_checksum_is_that_of_the_format(data):
    assert struct.pack("<I", masked_crc(data)) == masked(data)


@pytest.mark.parametrize("limit", [1, 2, 3, 99])
def test_files_are_read_one_after_another(save, compression, block_bytes, limit):
    pack = PACK[compression]
    files = [save(pack(d)) for d in (b"", FILE, b"", b"", GOLDEN, FILE, b"")]
    reader = TFRecordReader(files, compression)
    found, error = read_all(reader, limit)
    assert error is None
    assert found == [*RECORDS, b"1-0", b"", *RECORDS]


def test_chunks_are_full_across_files(save):
    reader = TFRecordReader([save(GOLDEN)] * 3)
    assert [len(reader.read(4)), len(reader.read(4)), reader.read(4)] == [4, 2, []]


def test_the_end_stays_the_end(save):
    reader = TFRecordReader([save(GOLDEN)])
    reader.read(9)
    assert [reader.read(9), reader.read(9), reader.state()] == [[], [], [1, 0]]


def test_no_files_have_no_records():
    assert TFRecordReader([]).read(1) == []


def test_state_restores_every_position(save, compression, block_bytes):
    files = [save(PACK[compression](data)) for data in (FILE, b"", GOLDEN, FILE)]
    expected = [*RECORDS, b"1-0", b"", *RECORDS]
    reader = TFRecordReader(files, compression)
    states = [reader.state()]
    while reader.read(1):
        states.append(reader.state())
    rest = []
    for state in states:
        other = TFRecordReader(files, compression)
        other.restore(state)
        rest.append(read_all(other, limit=2)[0])
    assert rest == [expected[i:] for i in range(len(expected) + 1)] + [[]] * (
        len(states) - len(expected) - 1
    )


def test_state_is_the_byte_after_the_last_record(save, compression):
    reader = TFRecordReader([save(PACK[compression](FILE))], compression)
    states = [reader.state()[1] for _ in RECORDS if reader.read(1)]
    assert states == ENDS


def test_restore_goes_back(save, compression):
    reader = TFRecordReader([save(PACK[compression](FILE))], compression)
    reader.read(1)
    state = reader.state()
    first, _ = read_all(reader)
    reader.restore(state)
    assert read_all(reader) == (first, None)


@pytest.mark.parametrize("index", range(len(FILE)))
def test_flipped_bit_is_found(save, index):
    damaged = bytearray(FILE)
    damaged[index] ^= 1 << (index % 8)
    found, error = read_all(TFRecordReader([save(damaged)]))
    num_whole = sum(end <= index for end in ENDS)
    assert found == RECORDS[:num_whole]
    assert f"record at {[0, *ENDS][num_whole]} of" in str(error)


@pytest.mark.parametrize("size", range(len(FILE)))
def test_truncation_is_found_except_after_a_record(save, size, compression):
    reader = TFRecordReader([save(PACK[compression](FILE[:size]))], compression)
    found, error = read_all(reader)
    assert found == RECORDS[: sum(end <= size for end in ENDS)]
    assert (error is None) == (size in [0, *ENDS])


@pytest.mark.parametrize("packing", ["GZIP", "ZLIB"])
def test_flipped_bits_of_compressed_files_never_give_wrong_records(save, packing):
    packed = PACK[packing](FILE)
    for index, bit in itertools.product(range(len(packed)), range(8)):
        damaged = bytearray(packed)
        damaged[index] ^= 1 << bit
        found, error = read_all(TFRecordReader([save(damaged)], packing))
        assert found == RECORDS[: len(found)]
        assert error is not None or found == RECORDS


@pytest.mark.parametrize("packing", ["GZIP", "ZLIB"])
def test_truncated_compressed_files_never_give_wrong_records(save, packing):
    packed = PACK[packing](FILE)
    for size in range(1, len(packed)):
        found, error = read_all(TFRecordReader([save(packed[:size])], packing))
        assert found == RECORDS[: len(found)]
        assert error is not None


def test_records_before_damage_in_a_compressed_file_are_read(save):
    packer = zlib.compressobj(wbits=31)
    # What follows a flush starts a new block, and this type of block does not exist.
    packed = packer.compress(FILE) + packer.flush(zlib.Z_SYNC_FLUSH) + b"\xff"
    found, error = read_all(TFRecordReader([save(packed)], "GZIP"))
    assert found == RECORDS
    assert "invalid block type" in str(error)


def frame_fast(record):
    length = struct.pack("<Q", len(record))
    crcs = [struct.pack("<I", masked_crc(part)) for part in (length, record)]
    return length + crcs[0] + record + crcs[1]


def test_joined_compressed_streams_are_read(save, compression):
    pack = PACK[compression]
    reader = TFRecordReader([save(pack(GOLDEN) + pack(FILE))], compression)
    assert read_all(reader) == ([b"1-0", b"", *RECORDS], None)


def test_error_comes_again_until_restored(save):
    reader = TFRecordReader([save(FILE[:-1])])
    found, _ = read_all(reader)
    again, error = read_all(reader)
    assert (found, again) == (RECORDS[:-1], [])
    assert "truncated record" in str(error)
    reader.restore([0, 0])
    assert reader.read(1) == RECORDS[:1]


def test_error_after_records_of_another_file_comes_later(save):
    reader = TFRecordReader([save(GOLDEN), save(b"garbage, and more of it")])
    assert reader.read(9) == [b"1-0", b""]
    with pytest.raises(DataLossError, match=r"length of a record .* at 0 of .*1\.bin"):
        reader.read(9)


def test_damaged_data_names_checksums(save):
    damaged = FILE[:12] + b"x" + FILE[13:]
    reader = TFRecordReader([save(damaged)])
    with pytest.raises(DataLossError, match=r"corrupted record at 0 of .*0xf0f8a206"):
        reader.read(1)


def test_length_beyond_the_file_takes_no_memory(save):
    length = struct.pack("<Q", 1 << 60)
    reader = TFRecordReader([save(length + masked(length) + b"1234")])
    with pytest.raises(DataLossError, match=r"truncated record .* ends after 16 bytes"):
        reader.read(1)


def test_compressed_file_read_as_plain_names_the_fix(save):
    reader = TFRecordReader([save(gzip.compress(FILE))])
    with pytest.raises(DataLossError, match='use compression="GZIP"'):
        reader.read(1)


def test_plain_file_read_as_compressed_names_the_fix(save):
    reader = TFRecordReader([save(FILE)], "GZIP")
    with pytest.raises(DataLossError, match="name its compression"):
        reader.read(1)


def test_zeros_are_not_an_empty_compressed_file(save, compression):
    found, error = read_all(TFRecordReader([save(bytes(64))], compression))
    assert (found, error is None) == ([], False)


def test_record_of_several_blocks_is_read(save, compression):
    large = bytes(range(256)) * (3 * (1 << 20) // 256)
    packed = PACK[compression](GOLDEN + frame_fast(large) + GOLDEN)
    reader = TFRecordReader([save(packed)], compression)
    assert read_all(reader) == ([b"1-0", b"", large, b"1-0", b""], None)


def test_many_different_lengths_are_read(save):
    records = [bytes(i) for i in range(20_000)][::7]
    reader = TFRecordReader([save(b"".join(map(frame_fast, records)))])
    assert read_all(reader) == (records, None)


def test_known_headers_are_forgotten_in_time(save, monkeypatch):
    monkeypatch.setattr("mirrax.data.file_formats.tfrecord._MAX_KNOWN_HEADERS", 2)
    assert read_all(TFRecordReader([save(FILE)])) == (RECORDS, None)
