"""XLA's all-reduce, under all its names."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.collectives import XlaAllReduce


def messages(ops, values):
    """Returns how many elements go into each psum of a program."""
    options = mirrax.CommunicationOptions()
    jaxpr = jax.make_jaxpr(
        lambda *xs: ops.sum_over_replicas(xs, 2, options), axis_env=[("replica", 2)]
    )(*values)
    return [
        [var.aval.size for var in equation.invars]
        for equation in jaxpr.eqns
        if "psum" in equation.primitive.name
    ]


@pytest.fixture
def values():
    return [jnp.ones(size) for size in (2, 2, 4, 2)]


def test_all_reduce_leaves_packing_to_xla(values):
    assert messages(XlaAllReduce(), values) == [[2], [2], [4], [2]]


@pytest.mark.parametrize("num_packs", [0, 1, 2])
def test_num_packs_is_left_to_xla(values, num_packs):
    assert messages(mirrax.NcclAllReduce(num_packs), values) == [[2], [2], [4], [2]]


@pytest.mark.parametrize(
    "kind",
    [mirrax.NcclAllReduce, mirrax.HierarchicalCopyAllReduce],
    ids=["nccl", "hierarchical"],
)
def test_negative_num_packs_is_refused(kind):
    with pytest.raises(ValueError, match=r"must be 0 \(no packing\).*num_packs=-1"):
        kind(num_packs=-1)
