"""Arrays of NumPy and JAX as datasets."""

import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.data import Dataset, as_dataset
from tests.data.plans import elements, resumed, values

ROWS = np.arange(8.0).reshape(2, 4)


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


@pytest.mark.parametrize(
    "rows",
    [ROWS, jnp.asarray(ROWS), (ROWS, ROWS), {"x": ROWS}],
    ids=["numpy", "jax", "tuple", "dict"],
)
def test_an_array_is_not_distributed_row_by_row(strategy, rows):
    with pytest.raises(ValueError, match=r"as_dataset\(data\)\.batch\(n\)"):
        strategy.experimental_distribute_dataset(rows)


def test_an_array_from_an_input_function_is_not_distributed(two_replicas):
    with pytest.raises(ValueError, match=r"as_dataset\(data\)\.batch\(n\)"):
        two_replicas.distribute_datasets_from_function(lambda context: ROWS)


def test_a_list_of_batches_is_divided(two_replicas):
    batches = list(np.arange(8).reshape(2, 4))
    distributed = two_replicas.experimental_distribute_dataset(batches)
    assert [[p.tolist() for p in step.values] for step in distributed] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]


def test_rows_of_numbers_must_be_batched_first(two_replicas):
    with pytest.raises(IndexError, match="Call `batch` with the global batch size"):
        two_replicas.experimental_distribute_dataset(as_dataset(np.arange(8)))
