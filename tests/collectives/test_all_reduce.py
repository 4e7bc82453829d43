"""XLA's all-reduce, and how values are packed into messages."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.collectives import XlaAllReduce
from tests.programs import engines, mirrored, parts, replica_id

NO_OPTIONS = mirrax.CommunicationOptions()


def messages(ops, values, options=NO_OPTIONS):
    """Returns how many elements go into each psum of a program."""
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


@pytest.mark.parametrize(
    "ops",
    [XlaAllReduce(), mirrax.NcclAllReduce(2), mirrax.HierarchicalCopyAllReduce(0)],
    ids=["xla", "nccl", "hierarchical"],
)
def test_bytes_per_pack_bounds_the_messages(values, ops):
    options = mirrax.CommunicationOptions(bytes_per_pack=16)
    assert messages(ops, values, options) == [[4], [4], [2]]


@pytest.mark.parametrize(
    "kind",
    [mirrax.NcclAllReduce, mirrax.HierarchicalCopyAllReduce],
    ids=["nccl", "hierarchical"],
)
def test_negative_num_packs_is_refused(kind):
    with pytest.raises(ValueError, match=r"must be 0 \(no packing\).*num_packs=-1"):
        kind(num_packs=-1)


@engines
@pytest.mark.parametrize("bytes_per_pack", [1, 8, 1 << 20])
def test_packed_sums_are_right(bytes_per_pack, engine):
    strategy = mirrored(2)
    options = mirrax.CommunicationOptions(bytes_per_pack=bytes_per_pack)

    def step():
        values = [jnp.ones(2) * replica_id(), jnp.int32(3), jnp.ones((1, 2))]
        return mirrax.get_replica_context().all_reduce("SUM", values, options)

    first, second, third = strategy.run(engine(step))
    assert parts(strategy, first) == [[1.0, 1.0]] * 2
    assert parts(strategy, second) == [6] * 2
    assert parts(strategy, third) == [[[2.0, 2.0]]] * 2
