"""Joining many small arrays into few messages."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.collectives.packing import groups_of_small, in_packs


@given(sizes=st.lists(st.integers(0, 50), max_size=30))
def test_small_values_are_one_group_and_the_others_one_each(sizes):
    groups = groups_of_small([np.zeros(size, np.int8) for size in sizes], 20)
    small = [i for i, size in enumerate(sizes) if size <= 20]
    large = [[i] for i, size in enumerate(sizes) if size > 20]
    assert groups == [small] * bool(small) + large


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
