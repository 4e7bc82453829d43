"""Descriptions that arguments must fit."""

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import TensorSpec
from mirrax.values.tensor_spec import PerReplicaSpec


def test_spec_is_float32_by_default():
    spec = TensorSpec([None, 3])
    assert spec.shape == (None, 3)
    assert spec.dtype == np.float32
    assert spec.name is None


def test_equal_specs_are_one_key():
    assert TensorSpec([2], jnp.int32) == TensorSpec((2,), "int32")
    assert len({TensorSpec([2]), TensorSpec([2])}) == 1


@pytest.mark.parametrize("shape", [(2, 3), (0, 3)], ids=str)
def test_open_dimension_takes_any_size(shape):
    TensorSpec([None, 3]).check(jnp.ones(shape))


def test_spec_without_a_shape_takes_any_shape():
    TensorSpec(None).check(jnp.ones((1, 2, 3)))


@pytest.mark.parametrize("shape", [(2, 4), (3,), (2, 3, 1)], ids=str)
def test_other_shape_is_refused(shape):
    with pytest.raises(
        ValueError, match=r"must match.*Received: float32\[.*TensorSpec"
    ):
        TensorSpec([None, 3]).check(jnp.ones(shape))


def test_other_dtype_is_refused():
    with pytest.raises(ValueError, match=r"Received: int32\[2\] for TensorSpec"):
        TensorSpec([2]).check(jnp.ones(2, jnp.int32))


@pytest.mark.parametrize("value", [np.ones(2), [1.0, 2.0]], ids=["array", "list"])
def test_64_bits_count_as_what_jax_makes_of_them(value):
    TensorSpec([2], np.float64).check(value)
    TensorSpec([2], np.float32).check(value)


def test_variable_is_checked_by_its_value():
    TensorSpec([2]).check(mirrax.Variable([1.0, 2.0]))


def test_specs_print_their_dtypes_as_numpy_does(monkeypatch):
    monkeypatch.setattr(TensorSpec, "dtype_text", staticmethod(str))
    spec = mirrax.TensorSpec([None, 2], np.float32)
    text = "TensorSpec(shape=(None, 2), dtype=float32, name=None)"
    assert repr(spec) == text
    assert repr(PerReplicaSpec((spec, spec))) == f"PerReplicaSpec({text}, {text})"
    assert "dtype=object, name='t'" in repr(mirrax.TensorSpec([], object, "t"))
    assert "shape=<unknown>" in repr(mirrax.TensorSpec(None))
