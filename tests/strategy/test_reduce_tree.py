"""Reductions of what is not a PerReplica."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import VariableAggregation, VariableSynchronization
from tests.programs import create, engines, per_replica


@pytest.mark.parametrize(
    ("op", "expected"), [("SUM", [2.0, 4.0]), ("MEAN", [1.0, 2.0])], ids=["sum", "mean"]
)
def test_mirrored_value_counts_once_for_each_replica(two_replicas, op, expected):
    v = create(two_replicas, 0.0)
    value = two_replicas.extended.broadcast_to(jnp.array([1.0, 2.0]), v)
    assert two_replicas.reduce(op, value, axis=None).tolist() == expected


@engines
@pytest.mark.parametrize("is_captured", [False, True], ids=["argument", "captured"])
def test_mirrored_result_of_a_compiled_run_counts_for_each_replica(
    two_replicas, engine, is_captured
):
    def all_ones():
        return mirrax.get_replica_context().all_reduce("SUM", jnp.ones(1))

    def combine(value):
        total = two_replicas.reduce("SUM", value, axis=None)
        return total, two_replicas.gather(value, axis=0)

    result = two_replicas.run(mirrax.function(all_ones))
    if is_captured:
        total, gathered = engine(lambda: combine(result))()
    else:
        total, gathered = engine(combine)(result)
    assert (total.tolist(), gathered.tolist()) == ([4.0], [2.0, 2.0])


@engines
def test_mean_of_a_mirrored_variable_is_its_value(strategy, engine):
    v = create(strategy, [1.0, 2.0])
    mean = engine(lambda: strategy.reduce("MEAN", v, axis=None))()
    assert mean.tolist() == [1.0, 2.0]


@engines
@pytest.mark.parametrize("aggregation", ["NONE", "SUM"])
def test_copies_of_an_on_read_variable_are_reduced(two_replicas, engine, aggregation):
    v = create(
        two_replicas,
        0.0,
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation[aggregation],
    )
    two_replicas.run(v.assign, args=(per_replica(two_replicas, [1.0, 3.0]),))
    total = engine(lambda: two_replicas.reduce("SUM", v, axis=None))()
    assert float(total) == 4.0


def test_structures_of_plain_values_are_reduced(two_replicas):
    value = {"a": 1.0, "b": [jnp.ones(2), None]}
    mean = two_replicas.reduce("MEAN", value, axis=None)
    assert mean["a"] == 1.0
    assert mean["b"][0].tolist() == [1.0, 1.0]
    assert mean["b"][1] is None


def test_plain_variable_is_reduced_by_its_value(two_replicas):
    v = mirrax.Variable([1.0, 3.0])
    assert two_replicas.reduce("MEAN", v, axis=0) == 2.0


def test_axis_of_a_plain_value_must_be_there(two_replicas):
    with pytest.raises(ValueError, match=r"axis=0 for values with 0 dimension"):
        two_replicas.reduce("MEAN", 1.0, axis=0)


def test_array_of_another_strategy_is_a_plain_value(two_replicas):
    other = mirrax.MirroredStrategy(["CPU:2", "CPU:3"])
    array = jax.device_put(jnp.array([1.0, 3.0]), other.topology.replicated)
    assert two_replicas.reduce("MEAN", array, axis=0) == 2.0
