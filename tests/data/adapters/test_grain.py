"""Grain's datasets, the real ones."""

import numpy as np
import pytest

from mirrax.data import as_dataset
from tests.data.plans import resumed, values

grain = pytest.importorskip("grain")


def make_map():
    return grain.MapDataset.range(20).shuffle(seed=3).map(lambda x: x * 2).batch(3)


def make_iter():
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    numbers = grain.MapDataset.range(20).shuffle(seed=3)
    return numbers.to_iter_dataset(options).filter(lambda x: x % 3 > 0).batch(3)


both = pytest.mark.parametrize("make", [make_map, make_iter], ids=["map", "iter"])


@both
def test_elements_are_those_of_grain(make):
    assert values(as_dataset(make())) == [x.tolist() for x in make()]


@both
@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_position_resumes_identically(make, position):
    rest, other = resumed(lambda: as_dataset(make()), position)
    assert other == rest


@both
def test_batches_are_divided(make, two_replicas):
    distributed = two_replicas.experimental_distribute_dataset(make())
    found = [np.concatenate(step.values).tolist() for step in distributed]
    assert found == [x.tolist() for x in make()]


@pytest.mark.parametrize("shape", [(8,), (8, 4)], ids=["scalars", "vectors"])
@pytest.mark.parametrize("is_map", [True, False], ids=["map", "iter"])
def test_rows_are_not_distributed_one_by_one(shape, is_map, strategy):
    rows = grain.MapDataset.source(np.ones(shape)).map(lambda x: x * 2)
    with pytest.raises(ValueError, match=r"as_dataset\(data\)\.batch\(n\)"):
        strategy.experimental_distribute_dataset(
            rows if is_map else rows.to_iter_dataset()
        )


def test_batches_are_batches_after_other_operations(two_replicas):
    batches = make_map().map(lambda x: x + 1).to_iter_dataset()
    first = next(iter(two_replicas.experimental_distribute_dataset(batches)))
    assert [len(part) for part in first.values] == [2, 1]


def test_elements_that_grain_leaves_out_are_left_out():
    dataset = grain.MapDataset.range(9).filter(lambda x: x % 2 == 0)
    rest, other = resumed(lambda: as_dataset(dataset), 2)
    assert [value for _, value in rest] == [4, 6, 8]
    assert other == rest


def test_an_endless_dataset_is_endless():
    dataset = as_dataset(grain.MapDataset.range(3).repeat())
    assert dataset.cardinality() == -1
    assert values(dataset.take(7)) == [0, 1, 2, 0, 1, 2, 0]
