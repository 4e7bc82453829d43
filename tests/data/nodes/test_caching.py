"""Caches, and reading ahead."""

import collections
import itertools
import os
import pickle

import numpy as np
import pytest
from hypothesis import given

from mirrax.data import Dataset, TFRecordWriter
from mirrax.errors import DataLossError
from tests.data.plans import counts, quick, sizes, through_json, values


@pytest.fixture
def counted():
    """A dataset of four numbers that notes what is read."""
    read = []

    def generate():
        for i in range(4):
            read.append(i)
            yield i

    dataset = Dataset.from_generator(generate, Dataset.range(1).element_spec)
    return dataset, read


def test_a_cache_reads_once(counted):
    dataset, read = counted
    cached = dataset.cache()
    assert [values(cached) for _ in range(3)] == [[0, 1, 2, 3]] * 3
    assert read == [0, 1, 2, 3]


def test_a_cache_that_was_not_read_to_its_end_starts_anew(counted):
    dataset, read = counted
    cached = dataset.cache()
    next(iter(cached))
    assert values(cached) == [0, 1, 2, 3]
    assert read == [0, 0, 1, 2, 3]


@quick
@given(count=counts, first=sizes, second=sizes)
def test_a_cache_holds_the_same_whatever_is_taken_at_once(count, first, second):
    cached = Dataset.range(count).cache()
    assert list(itertools.chain(*values(cached.batch(first)))) == list(range(count))
    assert list(itertools.chain(*values(cached.batch(second)))) == list(range(count))


def test_an_empty_dataset_can_be_cached():
    cached = Dataset.range(3).filter(lambda x: False).cache()
    assert [values(cached) for _ in range(2)] == [[], []]


def test_unequal_elements_can_be_cached():
    dataset = Dataset.range(3).map(lambda n: np.ones(int(n))).cache()
    assert [[len(x) for x in dataset] for _ in range(2)] == [[0, 1, 2]] * 2


def test_a_cached_order_stays(counted):
    cached = Dataset.range(20).shuffle(20, seed=1).cache()
    assert values(cached) == values(cached)


def test_what_is_done_to_an_element_does_not_reach_the_cache():
    cached = Dataset.from_tensor_slices(np.zeros((2, 3))).cache()
    list(cached)
    for element in cached:
        element[:] = 1
    assert not np.any(values(cached))


def test_a_later_epoch_of_a_cached_shuffle_resumes_in_the_cached_order():
    def make():
        return Dataset.range(20).shuffle(20, seed=1).cache()

    cached = make()
    values(cached)
    iterator = iter(cached)
    for _ in range(7):
        next(iterator)
    state = through_json(iterator.save_state())
    other = iter(make())
    other.restore_state(state)
    assert values(other) == values(iterator)


def test_a_cache_can_be_a_file(counted, tmp_path):
    dataset, read = counted
    name = str(tmp_path / "cache")
    assert values(dataset.cache(name)) == [0, 1, 2, 3]
    assert values(dataset.cache(name)) == [0, 1, 2, 3]
    assert read == [0, 1, 2, 3]


def test_a_cache_in_a_file_holds_every_kind_of_element(tmp_path):
    elements = [
        {"a": (np.int64(i), [np.ones(i, np.float32)]), "b": text, "c": None}
        for i, text in enumerate([b"", b"xy", "\u00e4".encode()])
    ]
    file = str(tmp_path / "cache")

    def make():
        source = Dataset.range(3).map(lambda i: elements[int(i)]["a"])
        words = Dataset.from_tensor_slices([e["b"] for e in elements])
        return Dataset.zip({"a": source, "b": words}).cache(file)

    first = list(make())
    second = list(make())
    for one, other in zip(first, second, strict=True):
        assert one["b"] == other["b"]
        np.testing.assert_array_equal(one["a"][1][0], other["a"][1][0])
        assert one["a"][1][0].dtype == other["a"][1][0].dtype
        assert type(other["a"]) is tuple
        assert type(other["a"][1]) is list


class Command:
    """Runs a command when it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (self._path,)


def test_a_cache_file_is_not_unpickled(tmp_path):
    file = tmp_path / "cache"
    file.write_bytes(pickle.dumps(([Command(str(tmp_path / "made"))], 0)))
    with pytest.raises(DataLossError, match=r"as `cache` or `save` wrote.*cache'"):
        values(Dataset.range(3).cache(str(file)))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("is_cache", [True, False], ids=["cache", "save"])
def test_every_damage_of_a_file_is_found(tmp_path, is_cache):
    data = Dataset.from_tensor_slices({"x": np.arange(6), "s": [b"a", b"bc"] * 3})

    def read():
        found = data.cache(str(file)) if is_cache else Dataset.load(tmp_path)
        return [(int(e["x"]), bytes(e["s"])) for e in found]

    file = tmp_path / ("cache" if is_cache else "mirrax-elements")
    if is_cache:
        list(data.cache(str(file)))
    else:
        data.save(tmp_path)
    whole = file.read_bytes()
    expected = read()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        with pytest.raises(DataLossError):
            read()
        file.write_bytes(whole[:position])
        with pytest.raises(DataLossError):
            read()
    file.write_bytes(whole + whole[-24:])
    with pytest.raises(DataLossError):
        read()
    file.write_bytes(whole)
    assert read() == expected


def test_a_file_of_another_version_is_refused(tmp_path):
    file = str(tmp_path / "mirrax-elements")
    with TFRecordWriter(file) as writer:
        writer.write(b'{"format": "mirrax-elements", "version": 1, "spec": [[], "x"]}')
    message = r"Received: '.*its format has version 1, not 2. Delete it, and write"
    with pytest.raises(DataLossError, match=message):
        list(Dataset.load(tmp_path))


def test_an_interrupted_cache_leaves_nothing(tmp_path):
    def fail(columns):
        raise KeyboardInterrupt

    cached = Dataset.range(3).map(lambda x: x if x < 2 else fail(x), None)
    with pytest.raises(KeyboardInterrupt):
        list(cached.cache(str(tmp_path / "cache")))
    assert list(tmp_path.iterdir()) == []


def test_elements_that_files_cannot_hold_are_refused(tmp_path):
    pair = collections.namedtuple("pair", "a")
    with pytest.raises(TypeError, match=r"tuples and lists. Received: a pair"):
        list(Dataset.range(2).map(pair).cache(str(tmp_path / "cache")))
    with pytest.raises(TypeError, match=r"numbers and strings"):
        list(Dataset.range(4).window(2).cache(str(tmp_path / "cache")))
    with pytest.raises(ValueError, match=r"must have an end"):
        Dataset.range(4).repeat().save(tmp_path / "endless")
    assert list(tmp_path.iterdir()) == []
