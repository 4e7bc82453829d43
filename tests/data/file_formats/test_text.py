r"""Lines end at \n and \r\n, wherever blocks end."""

import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.file_formats import TextLineReader, reader

PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def read_all(reader, limit=2):
    return [line for chunk in iter(lambda: reader.read(limit), []) for line in chunk]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"\n", [b""]),
        (b"\r\n", [b""]),
        (b"\n\na", [b"", b"", b"a"]),
        (b"a\r\nbc\r\n\r\nd\r\n", [b"a", b"bc", b"", b"d"]),
        (b"a\rb\x0bc\x0cd\x1ce\xc2\x85f\n", [b"a\rb\x0bc\x0cd\x1ce\xc2\x85f"]),
        (b"a\r\r\nb", [b"a\r", b"b"]),
        (b"a\r", [b"a\r"]),
        (b"a\0b\n", [b"a\0b"]),
    ],
    ids=repr,
)
def test_lines_are_cut_only_at_their_endings(save, block_bytes, text, lines):
    assert read_all(TextLineReader([save(text)])) == lines


def test_state_restores_every_line(save, block_bytes, compression):
    pack = PACK[compression]
    files = [save(pack(text)) for text in (b"a\r\nb\n\nlong line", b"", b"\nx\n")]
    lines = [b"a", b"b", b"", b"long line", b"", b"x"]
    reader = TextLineReader(files, compression)
    for index in range(len(lines) + 1):
        other = TextLineReader(files, compression)
        other.restore(reader.state())
        assert read_all(other) == lines[index:]
        reader.read(1)
    assert reader.read(1) == []


@given(
    st.lists(st.binary(max_size=9).map(lambda b: b.translate(None, b"\r\n"))),
    st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=1),
)
def test_lines_round_trip(tmp_path_factory, lines, endings):
    path = tmp_path_factory.mktemp("lines") / "file"
    pairs = zip(lines, itertools.cycle(endings), strict=False)
    path.write_bytes(b"".join(line + ending for line, ending in pairs))
    assert read_all(TextLineReader([str(path)])) == lines


def test_line_longer_than_a_block_is_read(save):
    long = b"x" * (2 * reader.BLOCK_BYTES + 5)
    assert read_all(TextLineReader([save(b"a\n" + long + b"\nb")])) == [
        b"a",
        long,
        b"b",
    ]
