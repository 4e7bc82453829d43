"""Collectives as one replica calls them."""

import jax
import jax.numpy as jnp
import pytest

from mirrax import CommunicationOptions, ReduceOp
from mirrax.collectives import XlaAllReduce, spmd

OPTIONS = CommunicationOptions()


def over_replicas(function, *columns):
    """Returns `function` of each replica's values, as one replica sees the result."""
    return jax.vmap(function, axis_name="replica")(*columns)


@pytest.mark.parametrize(
    ("op", "dtype", "expected", "expected_dtype"),
    [
        (ReduceOp.SUM, jnp.float32, 6.0, jnp.float32),
        (ReduceOp.MEAN, jnp.float32, 2.0, jnp.float32),
        (ReduceOp.SUM, jnp.int32, 6, jnp.int32),
        (ReduceOp.MEAN, jnp.int32, 2.0, jnp.float32),
        (ReduceOp.SUM, jnp.bool_, 3, jnp.int32),
        (ReduceOp.MEAN, jnp.bool_, 1.0, jnp.float32),
        (ReduceOp.MEAN, jnp.bfloat16, 2.0, jnp.bfloat16),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_all_reduce_has_a_dtype_that_holds_the_result(
    op, dtype, expected, expected_dtype
):
    (result,) = over_replicas(
        lambda x: spmd.all_reduce(op, [x], 3, XlaAllReduce(), OPTIONS),
        jnp.array([1, 2, 3], dtype),
    )
    assert result.tolist() == [expected] * 3
    assert result.dtype == expected_dtype


def test_all_reduce_of_nothing_is_nothing():
    assert spmd.all_reduce(ReduceOp.SUM, [], 3, XlaAllReduce(), OPTIONS) == []


def test_all_gather_joins_in_replica_order():
    (result,) = over_replicas(
        lambda x: spmd.all_gather([x], 0), jnp.array([[1, 2], [3, 4], [5, 6]])
    )
    assert result[2].tolist() == [1, 2, 3, 4, 5, 6]


def test_first_is_the_value_of_replica_0():
    assert over_replicas(spmd.first, jnp.array([7, 8, 9])).tolist() == [7, 7, 7]


def test_a_mean_of_integers_does_not_overflow():
    mean = jax.vmap(
        lambda x: spmd.all_reduce(ReduceOp.MEAN, [x], 2, XlaAllReduce(), OPTIONS),
        axis_name="replica",
    )
    (result,) = mean(jnp.array([2_000_000_000, 2_000_000_000]))
    assert result.tolist() == [2e9, 2e9]
