"""Files to read, in blocks of several sizes."""

import itertools

import pytest

from mirrax.data.file_formats import reader


@pytest.fixture
def save(tmp_path):
    """Writes bytes to a new file and returns its path."""
    numbers = itertools.count()

    def save(data):
        path = tmp_path / f"{next(numbers)}.bin"
        path.write_bytes(data)
        return str(path)

    return save


@pytest.fixture(params=[1, 2, 7, 1 << 20], ids=str)
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK_BYTES", request.param)
    return request.param


@pytest.fixture(params=["", "GZIP", "ZLIB"], ids=["plain", "gzip", "zlib"])
def compression(request):
    return request.param
