"""Joining many small arrays into few messages."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.collectives.packing import groups_by_bytes, in_packs

SIZES = st.lists(st.integers(0, 50), max_size=30)


def flatten(groups):
    return [index for group in groups for index in group]


@given(sizes=SIZES, bytes_per_pack=st.integers(1, 100))
def test_groups_by_bytes_are_closed_once_they_are_full(sizes, bytes_per_pack):
    values = [np.zeros(size, np.int8) for size in sizes]
    groups = groups_by_bytes(values, bytes_per_pack)
    assert flatten(groups) == list(range(len(sizes)))
    assert all(groups)
    before_the_last = [sum(sizes[i] for i in group[:-1]) for group in groups]
    assert all(held < bytes_per_pack for held in before_the_last)
    totals = [sum(sizes[i] for i in group) for group in groups[:-1]]
    assert all(total >= bytes_per_pack for total in totals)


@pytest.fixture
def values():
    return [
        jnp.ones((2, 2)),
        jnp.array(3, jnp.int32),
        jnp.zeros((0, 4)),
        jnp.float32(5),
        jnp.array([7, 8], jnp.int32),
    ]


def test_in_packs_gives_back_shapes_and_dtypes_in_order(values):
    results = in_packs(values, [[0, 1, 2], [3, 4]], lambda arrays: arrays)
    assert [r.shape for r in results] == [(2, 2), (), (0, 4), (), (2,)]
    assert [r.dtype for r in results] == [v.dtype for v in values]
    assert [r.tolist() for r in results] == [v.tolist() for v in values]


def test_in_packs_sends_one_vector_per_group_and_dtype(values):
    sent = []

    def reduce(arrays):
        sent.append([(a.shape, str(a.dtype)) for a in arrays])
        return arrays

    in_packs(values, [[0, 1, 2], [3, 4]], reduce)
    assert sent == [
        [((4,), "float32"), ((), "int32"), ((), "float32"), ((2,), "int32")]
    ]


def test_in_packs_applies_the_reduction(values):
    results = in_packs(
        values, [[0, 1, 2, 3, 4]], lambda arrays: [2 * a for a in arrays]
    )
    assert [r.tolist() for r in results] == [(2 * v).tolist() for v in values]
