"""`value_and_grad`: gradients with respect to variables, wherever code runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax

engines = pytest.mark.parametrize(
    "engine", [lambda fn: fn, mirrax.function], ids=["eager", "compiled"]
)


def context():
    return mirrax.get_replica_context()


def variables_in(strategy, *values, **options):
    with strategy.scope():
        return [mirrax.Variable(value, **options) for value in values]


def on_read(strategy, value):
    (variable,) = variables_in(
        strategy,
        value,
        synchronization=mirrax.VariableSynchronization.ON_READ,
        aggregation=mirrax.VariableAggregation.SUM,
    )
    return variable


def first(strategy, value):
    return np.asarray(strategy.experimental_local_results(value)[0])


# What it gives.


@engines
def test_one_variable_gives_one_gradient(strategy, engine):
    (weight,) = variables_in(strategy, 3.0)
    step = mirrax.value_and_grad(lambda x: x * weight**2, weight)
    value, gradient = strategy.run(engine(step), args=(2.0,))
    assert (first(strategy, value), first(strategy, gradient)) == (18, 12)


@engines
def test_it_works_outside_run(strategy, engine):
    (weight,) = variables_in(strategy, 3.0)
    value, gradient = engine(mirrax.value_and_grad(lambda: weight**2, weight))()
    assert (float(value), float(gradient)) == (9, 6)


@engines
def test_a_structure_of_variables_gives_a_structure_of_gradients(strategy, engine):
    weight, bias, unused = variables_in(strategy, [1.0, 2.0], 3.0, 4.0)
    tree = {"layer": (weight, [bias]), "unused": unused}
    step = mirrax.value_and_grad(lambda x: jnp.sum(weight * x) + bias * 2, tree)
    _, gradients = strategy.run(engine(step), args=(jnp.array([5.0, 6.0]),))
    np.testing.assert_array_equal(first(strategy, gradients["layer"][0]), [5, 6])
    assert first(strategy, gradients["layer"][1][0]) == 2
    assert first(strategy, gradients["unused"]) == 0


@engines
def test_auxiliary_results_come_with_the_value(strategy, engine):
    (weight,) = variables_in(strategy, 3.0)

    def loss(x):
        return x * weight**2, {"x": x + 1, "none": None}

    step = mirrax.value_and_grad(loss, weight, has_aux=True)
    (value, aux), gradient = strategy.run(engine(step), args=(2.0,))
    assert (first(strategy, value), first(strategy, gradient)) == (18, 12)
    assert first(strategy, aux["x"]) == 3
    assert aux["none"] is None


@engines
def test_keyword_arguments_reach_the_function(strategy, engine):
    (weight,) = variables_in(strategy, 3.0)
    step = mirrax.value_and_grad(lambda x, *, scale: x * weight * scale, weight)
    _, gradient = strategy.run(engine(step), args=(2.0,), kwargs={"scale": 5.0})
    assert first(strategy, gradient) == 10


@engines
def test_gradients_are_those_of_one_replica(two_replicas, engine):
    (weight,) = variables_in(two_replicas, 3.0)

    def step():
        number = jnp.float32(context().replica_id_in_sync_group + 1)
        return mirrax.value_and_grad(lambda: number * weight, weight)()[1]

    result = two_replicas.run(engine(step))
    assert [float(part) for part in result.values] == [1, 2]


@engines
def test_other_variables_are_constants(strategy, engine):
    weight, other = variables_in(strategy, 3.0, 5.0)
    step = mirrax.value_and_grad(lambda: weight * other, weight)
    value, gradient = strategy.run(engine(step))
    assert (first(strategy, value), first(strategy, gradient)) == (15, 5)


@engines
def test_gradients_of_gradients_are_right(strategy, engine):
    (weight,) = variables_in(strategy, 2.0)

    def slope():
        return mirrax.value_and_grad(lambda: weight**3, weight)()[1]

    value, curvature = strategy.run(engine(mirrax.value_and_grad(slope, weight)))
    assert (first(strategy, value), first(strategy, curvature)) == (12, 12)


@engines
def test_a_variable_passed_as_an_argument_is_differentiated(strategy, engine):
    (weight,) = variables_in(strategy, 3.0)
    step = mirrax.value_and_grad(lambda v: v * v, weight)
    _, gradient = strategy.run(engine(step), args=(weight,))
    assert first(strategy, gradient) == 6


def test_the_function_keeps_its_name():
    def loss():
        """The loss."""

    step = mirrax.value_and_grad(loss, mirrax.Variable(1.0))
    assert (step.__name__, step.__doc__) == ("loss", "The loss.")


def test_it_can_be_called_again_after_the_variable_changed():
    weight = mirrax.Variable(3.0)
    step = mirrax.value_and_grad(lambda: weight**2, weight)
    step()
    weight.assign(5.0)
    assert float(step()[1]) == 10


# Writes inside.


def test_writes_inside_are_kept_in_compiled_code(strategy):
    weight, steps = variables_in(strategy, 3.0, 0.0)

    def loss(x):
        steps.assign_add(1.0)
        return x * weight * steps

    step = mirrax.function(mirrax.value_and_grad(loss, weight))
    strategy.run(step, args=(2.0,))
    _, gradient = strategy.run(step, args=(2.0,))
    assert steps.numpy() == 2
    assert first(strategy, gradient) == 4


def test_writes_inside_are_kept_outside_run(strategy):
    weight, steps = variables_in(strategy, 3.0, 0.0)

    def loss():
        steps.assign_add(1.0)
        return weight * steps

    _, gradient = mirrax.value_and_grad(loss, weight)()
    assert steps.numpy() == 1
    assert float(gradient) == 1


def test_writes_inside_are_aggregated_once(two_replicas):
    (weight,) = variables_in(two_replicas, 3.0)
    (mean,) = variables_in(
        two_replicas, 0.0, aggregation=mirrax.VariableAggregation.MEAN
    )

    def loss():
        mean.assign(jnp.float32(context().replica_id_in_sync_group) * 2)
        return weight * 1.0

    two_replicas.run(mirrax.function(mirrax.value_and_grad(loss, weight)))
    assert mean.numpy() == 1


@engines
def test_each_replica_writes_its_own_copy_inside(two_replicas, engine):
    (weight,) = variables_in(two_replicas, 3.0)
    seen = on_read(two_replicas, 0.0)

    def loss():
        seen.assign_add(1.0 + context().replica_id_in_sync_group)
        return weight * 1.0

    two_replicas.run(engine(mirrax.value_and_grad(loss, weight)))
    assert [part.numpy() for part in seen.values] == [1, 2]
    assert seen.numpy() == 3


def test_a_write_that_differs_is_refused_by_name(two_replicas):
    (weight,) = variables_in(two_replicas, 3.0, name="mine")

    def loss():
        weight.assign(jnp.float32(context().replica_id_in_sync_group))
        return weight * 1.0

    step = mirrax.function(mirrax.value_and_grad(loss, weight))
    with pytest.raises(ValueError, match=r"'mine:0' must be assigned the same value"):
        two_replicas.run(step)


def test_an_error_inside_leaves_variables_as_they_were(strategy):
    weight, steps = variables_in(strategy, 3.0, 0.0)

    def loss():
        steps.assign_add(1.0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mirrax.value_and_grad(loss, weight)()
    assert (weight.numpy(), steps.numpy()) == (3, 0)


def test_sync_on_read_variables_are_read_outside_run(strategy):
    (weight,) = variables_in(strategy, 3.0)
    seen = on_read(strategy, 2.0)
    value, gradient = mirrax.value_and_grad(lambda: weight * seen, weight)()
    total = 2 * strategy.num_replicas_in_sync
    assert (float(value), float(gradient)) == (3 * total, total)


# What it refuses.


@pytest.mark.parametrize(
    "variables",
    [jnp.ones(2), 3.0, [jnp.ones(2)], {"x": "name"}],
    ids=["array", "number", "list", "text"],
)
def test_only_variables_are_accepted(variables):
    with pytest.raises(
        TypeError, match=r"differentiates .*variables.*jax.value_and_grad"
    ):
        mirrax.value_and_grad(lambda: 1.0, variables)


def test_run_of_parts_of_different_shapes_is_refused_inside(two_replicas):
    uneven = mirrax.PerReplica((jnp.ones(1), jnp.ones(2)))
    weight = mirrax.Variable(2.0)
    total = mirrax.value_and_grad(
        lambda: weight * two_replicas.run(jnp.sum, args=(uneven,)), weight
    )
    with pytest.raises(RuntimeError, match=r"only a `@mirrax\.function` knows"):
        total()


def test_a_loss_that_is_no_scalar_is_refused():
    weight = mirrax.Variable([1.0, 2.0])
    with pytest.raises(TypeError, match="scalar"):
        mirrax.value_and_grad(lambda: weight * 2, weight)()


def test_jax_grad_over_a_write_is_refused_by_name(strategy):
    (steps,) = variables_in(strategy, 0.0, name="mine")

    @mirrax.function
    def step():
        return jax.grad(lambda x: [steps.assign_add(1.0), x][1])(1.0)

    with pytest.raises(RuntimeError, match=r"'mine:0' was assigned inside a JAX"):
        strategy.run(step)


def test_eager_derivatives_trace_jitted_functions_once():
    traces = []

    @jax.jit
    def twice(x):
        traces.append(x)
        return 2 * x

    w = mirrax.Variable(3.0)
    differentiated = mirrax.value_and_grad(lambda: twice(w.value) ** 2, w)
    assert [float(g) for _, g in (differentiated(), differentiated())] == [24.0, 24.0]
    assert len(traces) == 1


def test_jitted_function_that_reads_a_variable_sees_its_new_value():
    w = mirrax.Variable(3.0)
    square = jax.jit(lambda: w.value**2)
    differentiated = mirrax.value_and_grad(square, w)
    for value in (3.0, 4.0, 5.0):
        w.assign(value)
        assert [float(x) for x in differentiated()] == [value**2, 2 * value]


@engines
def test_variable_that_is_listed_twice_has_its_gradient_twice(engine):
    w = mirrax.Variable(3.0)
    differentiated = engine(mirrax.value_and_grad(lambda: w**3, [w, w]))
    assert [float(g) for g in differentiated()[1]] == [27.0, 27.0]
