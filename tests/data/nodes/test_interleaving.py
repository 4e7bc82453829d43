"""Datasets made of elements, in turn."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import Dataset
from tests.data.plans import quick, sizes, values


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
