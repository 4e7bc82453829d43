"""Parts on the devices of their replicas."""

import jax
import numpy as np
import pytest

from mirrax.input.device_placement import part_spec, place_parts
from mirrax.values.layouts import Joined, Parts
from mirrax.values.tensor_spec import PerReplicaSpec, TensorSpec
from tests.conftest import mirrored

TOPOLOGY = mirrored(3).topology


def rows(*counts, dtype=np.float32):
    return [(np.arange(n * 2).reshape(n, 2) + n).astype(dtype) for n in counts]


def test_parts_of_one_shape_are_one_array_over_the_devices():
    parts = rows(4, 4, 4)
    placed = place_parts(parts, TOPOLOGY, True)
    assert isinstance(placed.layout, Joined)
    assert placed.layout.array.sharding == TOPOLOGY.split
    for part, value in zip(parts, placed.values, strict=True):
        assert np.array_equal(part, value)


@pytest.mark.parametrize(
    "counts", [(4, 4, 2), (4, 0, 0), (0, 0, 0)], ids=["partial", "empty", "none"]
)
def test_parts_of_other_shapes_are_arrays_of_their_own(counts):
    placed = place_parts(rows(*counts), TOPOLOGY, True)
    assert isinstance(placed.layout, Parts)
    assert [value.shape for value in placed.values] == [(n, 2) for n in counts]


@pytest.mark.parametrize("counts", [(2, 2, 2), (2, 1, 1)], ids=["same", "other"])
def test_every_part_is_on_its_device_and_not_tied_to_it(counts):
    values = place_parts(rows(*counts), TOPOLOGY, True).values
    assert [value.device for value in values] == list(TOPOLOGY.local_devices)
    assert not any(value.committed for value in values)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.bool_, np.uint8])
def test_dtypes_are_those_of_jax_in_either_form(dtype):
    found = {
        value.dtype
        for counts in ((2, 2, 2), (2, 1, 1))
        for value in place_parts(rows(*counts, dtype=dtype), TOPOLOGY, True).values
    }
    assert found == {jax.dtypes.canonicalize_dtype(dtype)}


@pytest.mark.parametrize("counts", [(64, 64, 64), (64, 32, 32)], ids=["same", "other"])
def test_what_is_done_to_a_batch_does_not_reach_the_devices(counts):
    parts = [np.zeros((n, 16), np.float32) for n in counts]
    placed = place_parts(parts, TOPOLOGY, True)
    for part in parts:
        part[:] = 1
    assert not any(np.asarray(value).any() for value in placed.values)


def test_text_stays_on_the_host():
    parts = [np.array([b"a", b"b"], object)] * 3
    assert place_parts(parts, TOPOLOGY, True).values[0].tolist() == [b"a", b"b"]


def test_scalars_are_placed():
    placed = place_parts([np.int32(i) for i in range(3)], TOPOLOGY, True)
    assert [int(value) for value in placed.values] == [0, 1, 2]


def test_a_single_replica_has_plain_arrays():
    topology = mirrored(1).topology
    assert isinstance(place_parts(rows(4), topology, True), jax.Array)
    assert isinstance(place_parts(rows(4), topology, False), np.ndarray)


def test_the_spec_of_parts_is_static_where_the_batch_divides():
    spec = TensorSpec((8, 3), np.float32)
    assert part_spec(spec, 4, 2) == PerReplicaSpec(
        (TensorSpec((2, 3), np.float32),) * 2
    )
    assert part_spec(spec, 3, 3).parts[0].shape == (None, 3)
