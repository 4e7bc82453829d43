"""Keras variables of strategies, and in programs without a strategy."""

import copy

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import mirrax
from tests.conftest import mirrored
from tests.programs import engines, parts


def number():
    return mirrax.get_replica_context().replica_id_in_sync_group


@pytest.fixture
def variable(two_replicas):
    with two_replicas.scope():
        return keras.Variable(np.zeros(2, "float32"), name="v")


BOTH = pytest.mark.parametrize(
    "decorate", [lambda fn: fn, mirrax.function], ids=["eager", "compiled"]
)


@BOTH
def test_variable_is_read_and_written_in_replicas(two_replicas, variable, decorate):
    def step():
        variable.assign_add(jnp.ones(2))
        return variable + number()

    parts = two_replicas.run(decorate(step)).values
    np.testing.assert_array_equal(parts[1], [2, 2])
    np.testing.assert_array_equal(variable.numpy(), [1, 1])


@BOTH
def test_different_values_in_one_variable_are_refused(two_replicas, variable, decorate):
    def step():
        variable.assign(jnp.full(2, number(), "float32"))

    with pytest.raises(ValueError, match=r"Variable 'v:0'.*same value"):
        two_replicas.run(decorate(step))


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("mean", 10.5), ("sum", 11.0), ("only_first_replica", 10.0)],
)
@BOTH
def test_aggregation_is_that_of_the_variable(
    two_replicas, aggregation, expected, decorate
):
    with two_replicas.scope():
        variable = keras.Variable(10.0, aggregation=aggregation)

    def step():
        variable.assign_add(jnp.float32(number()))

    two_replicas.run(decorate(step))
    assert float(variable.value) == expected


def test_value_that_the_user_holds_stays(two_replicas, variable):
    held = variable.value

    @mirrax.function
    def step():
        variable.assign_add(jnp.ones(2))

    two_replicas.run(step)
    np.testing.assert_array_equal(held, [0, 0])


def test_variable_created_outside_becomes_part_of_the_strategy_in_run(two_replicas):
    outside = keras.Variable(1.0)

    @mirrax.function
    def step():
        outside.assign(outside * 2)
        return outside.value

    two_replicas.run(step)
    assert float(outside.value) == 2.0
    assert outside.value.sharding == two_replicas.topology.replicated


def test_variable_of_another_strategy_is_refused_in_run(variable):
    with pytest.raises(RuntimeError, match="Create it in the scope of that strategy"):
        mirrored(4).run(lambda: variable.value)


def test_variable_takes_part_in_functions_and_gradients_without_a_strategy():
    variable = keras.Variable(3.0)

    @mirrax.function
    def step(x):
        value, gradient = mirrax.value_and_grad(
            lambda: variable.value**2 * x, variable
        )()
        variable.assign_sub(gradient)
        return value

    assert float(step(jnp.float32(1.0))) == 9.0
    assert float(step(jnp.float32(1.0))) == 9.0
    assert float(variable.value) == 3.0
    assert mirrax.value_and_grad(lambda: variable.value**2, variable)()[1] == 6.0


def test_variable_is_created_for_good_in_a_function(two_replicas):
    made = []

    @mirrax.function
    def step():
        if not made:
            made.append(keras.Variable(keras.initializers.RandomNormal(), shape=(3,)))
        return made[0].value + 1

    two_replicas.run(step)
    assert made[0].value.sharding == two_replicas.topology.replicated


def test_assignment_inside_jit_is_refused(variable):
    with pytest.raises(RuntimeError, match="inside a JAX transformation"):
        jax.jit(variable.assign)(jnp.ones(2))


def test_copy_is_a_variable_of_its_own(two_replicas, variable):
    other = copy.deepcopy(variable)
    two_replicas.run(lambda: other.assign(jnp.ones(2)))
    np.testing.assert_array_equal(variable.numpy(), [0, 0])
    np.testing.assert_array_equal(other.numpy(), [1, 1])


def test_variable_outside_of_all_is_as_keras_made_it():
    variable = keras.Variable(np.arange(3.0))
    variable.assign_sub(np.ones(3))
    variable.assign_add(np.full(3, 3.0))
    np.testing.assert_array_equal(variable.numpy(), [2, 3, 4])
    assert "_mirrax_proxy" not in vars(variable)


@engines
@pytest.mark.parametrize("takes_tape", [False, True], ids=["value_and_grad", "tape"])
def test_writes_in_a_derivative_are_aggregated_once(two_replicas, engine, takes_tape):
    with two_replicas.scope():
        variable = keras.Variable(1.0, aggregation="sum")

    def loss():
        variable.assign_add(1.0)
        return variable.value**2

    def step():
        if not takes_tape:
            return mirrax.value_and_grad(loss, variable)()
        with mirrax.GradientTape() as tape:
            value = loss()
        return value, tape.gradient(value, variable)

    value, gradient = two_replicas.run(engine(step))
    assert parts(two_replicas, value) == [9, 9]
    assert parts(two_replicas, gradient) == [6, 6]
    assert float(variable.value) == 3
