"""Datasets made of elements, in turn."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset, TextLineDataset, TFRecordDataset, TFRecordWriter
from mirrax.errors import DataLossError
from tests.data.plans import quick, sizes, through_json, values


def interleaved(lengths, cycle, block):
    """Returns what datasets of these lengths give in turn, as TensorFlow says."""
    waiting = iter([iter([(i, j) for j in range(n)]) for i, n in enumerate(lengths)])
    slots, has_more, turn, result = [None] * cycle, True, 0, []
    while has_more or any(slots):
        if slots[turn] is None:
            slots[turn] = next(waiting, None)
            if slots[turn] is None:
                has_more = False
                turn = (turn + 1) % cycle
                continue
        got = list(itertools.islice(slots[turn], block))
        result += got
        if len(got) < block:
            slots[turn] = None
        turn = (turn + 1) % cycle
    return result


@quick
@given(
    lengths=st.lists(st.integers(0, 5), max_size=7),
    cycle=sizes,
    block=st.integers(1, 4),
)
def test_interleave_takes_turns(lengths, cycle, block):
    dataset = Dataset.from_tensor_slices(
        (np.arange(len(lengths)), np.array(lengths, np.int64))
    ).interleave(
        lambda i, n: Dataset.range(int(n)).map(lambda j: (i, j)),
        cycle_length=cycle,
        block_length=block,
    )
    got = [(int(i), int(j)) for i, j in dataset]
    assert got == interleaved(lengths, cycle, block)


@quick
@given(st.lists(st.integers(0, 4), max_size=6))
def test_flat_map_gives_one_dataset_after_another(lengths):
    dataset = Dataset.from_tensor_slices(np.array(lengths, np.int64))
    flat = dataset.flat_map(lambda n: Dataset.range(int(n)))
    assert values(flat) == [i for n in lengths for i in range(n)]


def test_interleaved_shuffles_differ_each_iteration():
    dataset = Dataset.range(2).interleave(
        lambda i: Dataset.range(20).shuffle(20, seed=1), cycle_length=1, block_length=20
    )
    assert values(dataset) != values(dataset)


@pytest.fixture
def files(tmp_path):
    """Five files of lines: file `i` has `100 * i` of them."""
    for i in range(5):
        (tmp_path / str(i)).write_text("".join(f"{i}.{j}\n" for j in range(100 * i)))
    return sorted(str(path) for path in tmp_path.iterdir())


calls = pytest.mark.parametrize("calls", [None, 3], ids=["plain", "threads"])


@calls
@pytest.mark.parametrize("block", [1, 3])
def test_interleaved_files_come_as_told(files, calls, block):
    dataset = Dataset.from_tensor_slices(files).interleave(
        TextLineDataset, cycle_length=3, block_length=block, num_parallel_calls=calls
    )
    lines = interleaved([100 * i for i in range(5)], 3, block)
    expected = [f"{i}.{j}".encode() for i, j in lines]
    assert list(dataset) == expected
    assert [line for batch in dataset.batch(7) for line in batch] == expected


@calls
@pytest.mark.parametrize("position", [0, 1, 5, 63, 100, 142])
def test_interleaved_files_resume_without_reading_all_again(files, calls, position):
    def make(opened):
        def open_file(name):
            opened.append(name)
            return TextLineDataset(name)

        names = Dataset.from_tensor_slices(files).shuffle(5, seed=2)
        lines = names.interleave(open_file, cycle_length=3, num_parallel_calls=calls)
        return iter(lines.batch(7))

    iterator = make([])
    for _ in range(position):
        next(iterator)
    state = through_json(iterator.save_state())
    opened = []
    other = make(opened)
    other.restore_state(state)
    assert len(opened) <= 3
    assert values(other) == values(iterator)


def test_shuffles_without_a_seed_resume_inside_of_interleave(files):
    def make():
        names = Dataset.from_tensor_slices(files)
        return names.interleave(lambda name: TextLineDataset(name).shuffle(50)).batch(9)

    dataset = make()
    iterator = iter(dataset)
    for _ in range(20):
        next(iterator)
    other = iter(make())
    other.restore_state(through_json(iterator.save_state()))
    assert values(other) == values(iterator)


@calls
def test_what_comes_before_a_damaged_file_arrives(tmp_path, calls):
    for name in "ab":
        with TFRecordWriter(str(tmp_path / name)) as writer:
            for i in range(3):
                writer.write(f"{name}{i}".encode())
    with open(tmp_path / "b", "r+b") as file:
        file.truncate(30)
    names = [str(tmp_path / name) for name in "ab"]
    records = Dataset.from_tensor_slices(names).interleave(
        TFRecordDataset, cycle_length=2, num_parallel_calls=calls
    )
    iterator = iter(records)
    assert [next(iterator) for _ in range(3)] == [b"a0", b"b0", b"a1"]
    with pytest.raises(DataLossError, match="truncated record at 18"):
        next(iterator)


def test_files_are_read_at_the_same_time():
    barrier = threading.Barrier(3, timeout=120)

    def make(i):
        def generate():
            barrier.wait()
            yield from range(3)

        return Dataset.from_generator(generate, Dataset.range(1).element_spec)

    dataset = Dataset.range(3).interleave(make, cycle_length=3, num_parallel_calls=3)
    assert values(dataset) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "arguments", [{"cycle_length": 0}, {"block_length": 0}], ids=["cycle", "block"]
)
def test_lengths_must_be_positive(arguments):
    with pytest.raises(ValueError, match="must be at least 1"):
        Dataset.range(3).interleave(Dataset.range, **arguments)
