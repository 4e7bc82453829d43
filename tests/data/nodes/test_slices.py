"""Integers and the rows of arrays."""

import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.data import Dataset


def test_from_tensors_is_one_element():
    (element,) = Dataset.from_tensors({"a": [1, 2], "b": 3})
    assert element["a"].tolist() == [1, 2]
    assert element["b"] == 3


def test_from_tensor_slices_keeps_nesting():
    dataset = Dataset.from_tensor_slices(({"a": np.arange(2)}, jnp.ones((2, 3)), None))
    first, second = dataset
    assert second[0]["a"] == 1
    assert first[1].shape == (3,)
    assert first[2] is None


def test_lists_of_strings_become_bytes():
    assert list(Dataset.from_tensor_slices(["a", "longer"])) == [b"a", b"longer"]


def test_lists_of_floats_are_of_32_bits():
    assert Dataset.from_tensor_slices([1.0, 2.0]).element_spec.dtype == np.float32


def test_slices_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"same number of rows.*\[2, 3\]"):
        Dataset.from_tensor_slices((np.zeros(2), np.zeros(3)))


def test_slices_of_scalars_are_refused():
    with pytest.raises(ValueError, match="first dimension"):
        Dataset.from_tensor_slices(3)


def test_no_rows_give_no_elements():
    assert list(Dataset.from_tensor_slices(np.zeros((0, 3)))) == []
