"""Collecting the values and combining them in replica order."""

import functools

import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import create, engines, mirrored, parts, per_replica, replica_id


def all_reduce(op, value):
    return mirrax.get_replica_context().all_reduce(op, value)


def largest(values):
    return functools.reduce(jnp.maximum, values)


@pytest.fixture
def strategy():
    ops = mirrax.ReductionToOneDevice(accumulation_fn=largest)
    return mirrored(3, cross_device_ops=ops)


@engines
def test_own_accumulation_is_used_by_all_reduce(strategy, engine):
    result = strategy.run(engine(lambda: all_reduce("SUM", jnp.float32(replica_id()))))
    assert parts(strategy, result) == [2.0] * 3


def test_own_accumulation_is_used_by_reduce(strategy):
    value = per_replica(strategy, [jnp.array([x, -x]) for x in (1.0, 5.0, 3.0)])
    assert strategy.reduce("SUM", value, axis=None).tolist() == [5.0, -1.0]


def test_own_accumulation_gives_a_value_that_may_be_assigned(strategy):
    v = create(strategy, 0.0)
    step = mirrax.function(
        lambda: v.assign(all_reduce("SUM", jnp.float32(replica_id())))
    )
    strategy.run(step)
    assert v.numpy() == 2.0


def test_accumulation_gets_the_values_in_replica_order():
    ops = mirrax.ReductionToOneDevice(
        accumulation_fn=lambda values: values[0] * 100 + values[1] * 10 + values[2]
    )
    strategy = mirrored(3, cross_device_ops=ops)
    value = per_replica(strategy, [jnp.int32(x) for x in (1, 2, 3)])
    assert strategy.reduce("SUM", value, axis=None) == 123


def test_name_of_the_device_is_kept():
    assert mirrax.ReductionToOneDevice("CPU:0").reduce_to_device == "CPU:0"
