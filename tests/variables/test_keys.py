"""Variables that hold random keys, and distributed values of them."""

import copy

import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import create, engines, replica_id


def data(key):
    return jax.random.key_data(key).tolist()


def test_assigned_keys_are_copied(strategy):
    variable = create(strategy, lambda: jax.random.key(0))
    key = jax.random.key(1)
    variable.assign(key)
    key.delete()
    assert data(variable.value) == data(jax.random.key(1))


def test_key_can_be_assigned(strategy):
    variable = create(strategy, lambda: jax.random.key(0))
    variable.assign(jax.random.key(1))
    assert data(variable.value) == [0, 1]


@engines
def test_key_can_be_assigned_in_run(strategy, engine):
    variable = create(strategy, lambda: jax.random.key(0))
    strategy.run(engine(lambda: variable.assign(jax.random.split(variable.value)[0])))
    assert data(variable.value) == data(jax.random.split(jax.random.key(0))[0])


@engines
def test_keys_that_differ_are_refused(two_replicas, engine):
    variable = create(two_replicas, lambda: jax.random.key(0))

    def step():
        variable.assign(jax.random.fold_in(variable.value, replica_id()))

    with pytest.raises(ValueError, match=r"assign.* the same value"):
        two_replicas.run(engine(step))


def test_held_key_survives_a_program_that_overwrites_it(strategy):
    variable = create(strategy, lambda: jax.random.key(0))
    held = variable.value
    strategy.run(mirrax.function(lambda: variable.assign(jax.random.key(1))))
    assert data(held) == [0, 0]
    assert data(variable.value) == [0, 1]


@pytest.mark.parametrize(
    "value", [1, jnp.ones(2), [0, 1]], ids=["number", "array", "list"]
)
def test_key_is_replaced_by_keys_only(strategy, value):
    variable = create(strategy, lambda: jax.random.key(0))
    with pytest.raises(ValueError, match=r"holds random keys.*wrap_key_data"):
        variable.assign(value)


def test_number_is_not_replaced_by_a_key(strategy):
    variable = create(strategy, 0.0)
    with pytest.raises(ValueError, match=r"has the fixed dtype float32"):
        variable.assign(jax.random.key(0))


def test_key_is_shown_by_its_data(strategy):
    variable = create(strategy, lambda: jax.random.key(7))
    assert "dtype=key<fry>, numpy=array([0, 7], dtype=uint32)" in repr(variable)


def test_variable_of_keys_can_be_copied(strategy):
    variable = create(strategy, lambda: jax.random.key(7))
    other = copy.deepcopy(variable)
    variable.assign(jax.random.key(8))
    assert data(other.value) == [0, 7]


@engines
def test_the_key_of_the_first_replica_is_kept(two_replicas, engine):
    with two_replicas.scope():
        variable = mirrax.Variable(
            jax.random.key(0),
            aggregation=mirrax.VariableAggregation.ONLY_FIRST_REPLICA,
        )
    two_replicas.run(
        engine(lambda: [variable.assign(jax.random.key(7 + replica_id()))])
    )
    assert data(variable.value) == [0, 7]
