"""Arrays of NumPy and JAX as datasets."""

import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.data import Dataset, as_dataset
from tests.data.plans import elements, resumed, values


@pytest.mark.parametrize("make", [np.arange, jnp.arange], ids=["numpy", "jax"])
def test_an_array_is_its_rows(make):
    assert values(as_dataset(make(5)).batch(2)) == [[0, 1], [2, 3], [4]]


def test_a_structure_of_arrays_is_their_rows_side_by_side():
    arrays = {"x": np.arange(4), "y": (jnp.ones((4, 2)), None)}
    assert elements(as_dataset(arrays)) == elements(Dataset.from_tensor_slices(arrays))


def test_rows_of_arrays_are_shuffled_as_numbers():
    def make():
        return as_dataset((np.arange(9), jnp.arange(9))).shuffle(9, seed=1).batch(2)

    rest, other = resumed(make, 3)
    assert other == rest


def test_a_dataset_is_itself():
    dataset = Dataset.range(3)
    assert as_dataset(dataset) is dataset


def test_an_array_of_batches_is_divided(two_replicas):
    batches = np.arange(8).reshape(2, 4)
    distributed = two_replicas.experimental_distribute_dataset(batches)
    assert [[p.tolist() for p in step.values] for step in distributed] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]


def test_an_array_of_examples_must_be_batched_first(two_replicas):
    with pytest.raises(IndexError, match="Call `batch` with the global batch size"):
        two_replicas.experimental_distribute_dataset(np.arange(8))
