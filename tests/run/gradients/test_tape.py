"""`GradientTape` in traced code gives the gradients that TensorFlow gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from tests.programs import create, engines, parts


def context():
    return mirrax.get_replica_context()


def in_function(fn, *args):
    return mirrax.function(fn)(*args)


@pytest.fixture
def weight():
    return mirrax.Variable(3.0)


# Gradients.


def test_the_gradient_of_a_variable(weight):
    def step(x):
        with mirrax.GradientTape() as tape:
            loss = x * weight**2
        return tape.gradient(loss, weight)

    assert float(in_function(step, 2.0)) == 12


@engines
def test_the_gradient_of_an_argument(engine):
    def step(x):
        with mirrax.GradientTape() as tape:
            tape.watch(x)
            loss = x**3
        return tape.gradient(loss, x)

    assert float(engine(step)(jnp.float32(2.0))) == 12


@engines
def test_the_gradient_of_a_value_that_was_computed_before(engine):
    def step(x):
        doubled = 2 * x
        with mirrax.GradientTape() as tape:
            tape.watch(doubled)
            loss = doubled**2
        return tape.gradient(loss, doubled)

    assert float(engine(step)(jnp.float32(3.0))) == 12


def test_a_structure_of_variables_gives_a_structure_of_gradients(weight):
    bias = mirrax.Variable([1.0, 2.0])

    def step(x):
        with mirrax.GradientTape() as tape:
            loss = jnp.sum(weight * x + bias**2)
        return tape.gradient(loss, {"weight": weight, "rest": [bias, x]})

    result = in_function(step, jnp.array([5.0, 6.0]))
    assert float(result["weight"]) == 11
    np.testing.assert_array_equal(result["rest"], [[2, 4], [3, 3]])


def test_an_array_as_target_is_summed_up(weight):
    def step(x):
        with mirrax.GradientTape() as tape:
            outputs = weight * x
        return tape.gradient(outputs, weight)

    assert float(in_function(step, jnp.arange(4.0))) == 6


def test_several_targets_are_summed_up(weight):
    def step():
        with mirrax.GradientTape() as tape:
            outputs = [weight**2, weight**3]
        return tape.gradient(outputs, weight)

    assert float(in_function(step)) == 6 + 27


@engines
def test_targets_can_be_weighted(weight, engine):
    def step(x):
        with mirrax.GradientTape() as tape:
            outputs = weight * x
        weights = jnp.array([1.0, 10.0])
        return tape.gradient(outputs, weight, output_gradients=weights)

    assert float(engine(step)(jnp.array([2.0, 3.0]))) == 32


@engines
def test_weights_of_the_target_are_constants(engine):
    def step(x):
        with mirrax.GradientTape() as outer, mirrax.GradientTape() as tape:
            cube, double = x**3, 2 * x
            weighted = tape.gradient(cube, x, output_gradients=double)
        return (
            weighted,
            tape.gradient(cube, x, output_gradients=cube),
            # For another tape they are not.
            outer.gradient(weighted, x),
        )

    found = engine(step)(jnp.array([1.0, 2.0]))
    assert np.array(found).tolist() == [[6, 48], [3, 96], [18, 72]]


def test_two_tapes_are_independent(weight):
    def step():
        with mirrax.GradientTape() as first, mirrax.GradientTape() as second:
            square, cube = weight**2, weight**3
        return first.gradient(square, weight), second.gradient(cube, weight)

    assert [float(item) for item in in_function(step)] == [6, 27]


def test_a_gradient_can_be_used_in_a_loss(weight):
    def step():
        with mirrax.GradientTape() as outer:
            with mirrax.GradientTape() as inner:
                loss = weight**2
            penalty = inner.gradient(loss, weight) ** 2
            total = loss + penalty
        return outer.gradient(total, weight)

    # d/dw (w**2 + (2 w)**2) = 10 w.
    assert float(in_function(step)) == 30


def test_a_step_that_writes_the_variable_before_the_tape(weight):
    def step():
        weight.assign(5.0)
        with mirrax.GradientTape() as tape:
            loss = weight**2
        return tape.gradient(loss, weight)

    assert float(in_function(step)) == 10


@pytest.mark.parametrize(
    "loss",
    [
        lambda w: jax.jit(lambda x: x**2)(w.value),
        lambda w: jax.lax.scan(lambda c, _: (c * w, None), 1.0, None, length=2)[0],
        lambda w: jax.lax.cond(w > 0, lambda: w**2, lambda: 0.0 * w),
        lambda w: jax.lax.fori_loop(0, 2, lambda _, c: c * w, 1.0),
        lambda w: jax.checkpoint(lambda x: x**2)(w.value),
        lambda w: jax.nn.relu(w.value) ** 2,
        lambda w: jax.vmap(lambda x: x * w)(jnp.ones(2) * w).sum() / 2,
    ],
    ids=["jit", "scan", "cond", "fori_loop", "remat", "custom_jvp", "vmap"],
)
def test_gradients_go_through_transformations(weight, loss):
    def step():
        with mirrax.GradientTape() as tape:
            value = loss(weight)
        return tape.gradient(value, weight)

    assert float(in_function(step)) == 6


def test_a_tape_works_inside_a_scan(weight):
    def step():
        def body(total, x):
            with mirrax.GradientTape() as tape:
                loss = x * weight**2
            return total + tape.gradient(loss, weight), None

        return jax.lax.scan(body, 0.0, jnp.array([1.0, 2.0]))[0]

    assert float(in_function(step)) == 18


def test_gradients_keep_the_dtype():
    weight = mirrax.Variable(jnp.ones(2, "bfloat16"))

    def step():
        with mirrax.GradientTape() as tape:
            loss = jnp.sum(weight * 2)
        return tape.gradient(loss, weight)

    assert in_function(step).dtype == jnp.bfloat16


# What the tape did not see.


def test_a_variable_that_was_not_read_has_no_gradient(weight):
    other = mirrax.Variable(1.0)

    def step():
        with mirrax.GradientTape() as tape:
            loss = weight**2
        return tape.gradient(loss, [weight, other])

    gradient, missing = in_function(step)
    assert float(gradient) == 6
    assert missing is None


def test_a_variable_that_was_read_before_the_tape_only_has_no_gradient(weight):
    other = mirrax.Variable(1.0)

    def step():
        before = other * 1
        with mirrax.GradientTape() as tape:
            loss = weight**2
        return tape.gradient(loss, other), before

    assert in_function(step)[0] is None


@engines
@pytest.mark.parametrize(
    "constant",
    [
        lambda x: jnp.float32(jnp.argmax(jnp.stack([x, 2 * x]))),
        lambda x: jnp.float32(x > 1),
        jnp.int32,
        jax.lax.stop_gradient,
    ],
    ids=["argmax", "comparison", "integer", "stopped"],
)
def test_a_variable_behind_an_operation_without_derivative_has_no_gradient(
    weight, engine, constant
):
    def step():
        with mirrax.GradientTape(persistent=True) as tape:
            alone = constant(weight.value)
            both = alone * weight
        return tape.gradient(alone, weight), tape.gradient(both, weight)

    missing, gradient = engine(step)()
    assert missing is None
    assert gradient is not None


@engines
def test_a_variable_that_the_target_does_not_need_has_no_gradient(weight, engine):
    other = mirrax.Variable(1.0)

    def step(x):
        with mirrax.GradientTape() as tape:
            unused = other * x
            loss = weight**2
        return tape.gradient(loss, [weight, other, x]), unused

    (gradient, missing, of_argument), _ = engine(step)(jnp.float32(2.0))
    assert float(gradient) == 6
    assert missing is None
    assert of_argument is None


@engines
@pytest.mark.parametrize("choice", ["zero", "ZERO"])
def test_zeros_can_stand_for_missing_gradients(weight, choice, engine):
    other = mirrax.Variable([1.0, 2.0])

    def step():
        with mirrax.GradientTape() as tape:
            loss = weight**2
        return tape.gradient(loss, other, unconnected_gradients=choice)

    np.testing.assert_array_equal(engine(step)(), [0, 0])


# Tapes in tapes, whose sources are not the same.


@engines
def test_a_second_derivative_by_another_variable_is_right(weight, engine):
    other = mirrax.Variable(2.0)

    def step():
        with mirrax.GradientTape() as outer:
            with mirrax.GradientTape() as inner:
                loss = weight**2 * other**2
            slope = inner.gradient(loss, weight)
        return slope, outer.gradient(slope, other)

    # 2 * w * o**2, and 4 * w * o.
    assert [float(x) for x in engine(step)()] == [24, 24]


@engines
def test_a_third_derivative_by_other_variables_is_right(weight, engine):
    other = mirrax.Variable(2.0)

    def step():
        with mirrax.GradientTape() as outer:
            with mirrax.GradientTape() as middle:
                with mirrax.GradientTape() as inner:
                    loss = weight**3 * other**3
                first = inner.gradient(loss, weight)
            second = middle.gradient(first, other)
        return first, second, outer.gradient(second, weight)

    # 3 * w**2 * o**3, 9 * w**2 * o**2, 18 * w * o**2.
    assert [float(x) for x in engine(step)()] == [216, 324, 216]


@engines
def test_an_outer_tape_may_start_after_what_the_inner_one_recorded(weight, engine):
    other = mirrax.Variable(2.0)

    def step():
        with mirrax.GradientTape() as early:
            square = weight**2
            with mirrax.GradientTape() as late:
                slope = early.gradient(square * other, weight)
        return slope, late.gradient(slope, other)

    assert [float(x) for x in engine(step)()] == [12, 6]


@engines
def test_a_penalty_on_gradients_by_the_input_is_differentiated(weight, engine):
    def step(x):
        with mirrax.GradientTape() as outer:
            with mirrax.GradientTape() as inner:
                inner.watch(x)
                score = weight * x**2 * x
            penalty = (inner.gradient(score, x) - 1) ** 2
        return penalty, outer.gradient(penalty, weight)

    # The slope 3 * w * x**2 is 36; 2 * (36 - 1) * 3 * x**2 is 840.
    assert [float(x) for x in engine(step)(jnp.float32(2))] == [1225, 840]


def test_a_value_on_the_way_of_an_inner_tape_is_a_source_of_the_outer(weight):
    def step():
        with mirrax.GradientTape() as outer:
            with mirrax.GradientTape() as inner:
                double = weight * 2
                loss = double**2
            slope = inner.gradient(loss, weight)
        return slope, outer.gradient(slope, double), outer.gradient(slope, weight)

    assert [float(x) for x in in_function(step)] == [24, 4, 8]


# Variables that are not trainable are sources only if they are watched.


@engines
@pytest.mark.parametrize("persistent", [False, True], ids=["once", "persistent"])
def test_a_variable_that_is_not_trainable_is_no_source(strategy, engine, persistent):
    weight = create(strategy, 3.0)
    fixed = create(strategy, 2.0, trainable=False)

    def step():
        with mirrax.GradientTape(persistent=persistent) as tape:
            loss = weight**2 * fixed
        return *tape.gradient(loss, [weight, fixed]), len(tape.watched_variables())

    gradient, missing, num_watched = strategy.run(engine(step))
    assert parts(strategy, gradient)[0] == 12
    assert missing is None
    assert num_watched == 1


@engines
@pytest.mark.parametrize("watches_others", [True, False], ids=["all", "only_this"])
def test_a_variable_that_is_not_trainable_can_be_watched(
    strategy, engine, watches_others
):
    weight = create(strategy, 3.0)
    fixed = create(strategy, 2.0, trainable=False)

    def step():
        with mirrax.GradientTape(watch_accessed_variables=watches_others) as tape:
            before = 100 * weight * fixed
            tape.watch(fixed)
            loss = weight**2 * fixed + before
        return tape.gradient(loss, [weight, fixed])

    by_weight, by_fixed = strategy.run(engine(step))
    # What was read before it was watched is a constant.
    assert parts(strategy, by_fixed)[0] == 9
    if watches_others:
        assert parts(strategy, by_weight)[0] == 212
    else:
        assert by_weight is None


@engines
def test_each_tape_watches_for_itself(weight, engine):
    fixed = mirrax.Variable(2.0, trainable=False)

    def step():
        with mirrax.GradientTape() as outer:
            outer.watch(fixed)
            with mirrax.GradientTape() as inner:
                loss = weight**2 * fixed**2
            gradient, missing = inner.gradient(loss, [weight, fixed])
        return missing, *outer.gradient(gradient, [weight, fixed])

    missing, by_weight, by_fixed = engine(step)()
    assert missing is None
    assert (float(by_weight), float(by_fixed)) == (8, 24)


# In a strategy.


def test_gradients_are_those_of_one_replica(strategy):
    with strategy.scope():
        variable = mirrax.Variable(3.0)

    @mirrax.function
    def step(x):
        with mirrax.GradientTape() as tape:
            loss = x * variable**2 * (1 + context().replica_id_in_sync_group)
        return tape.gradient(loss, variable)

    result = strategy.run(step, args=(2.0,))
    count = strategy.num_replicas_in_sync
    assert [float(p) for p in strategy.experimental_local_results(result)] == [
        12 * (i + 1) for i in range(count)
    ]


def test_a_training_step_with_a_tape_equals_one_with_value_and_grad(four_replicas):
    rng = np.random.default_rng(0)
    weights, x = rng.normal(size=(2, 4, 3)).astype("float32")
    with four_replicas.scope():
        taped, plain = mirrax.Variable(weights), mirrax.Variable(weights)

    @mirrax.function
    def step(x):
        with mirrax.GradientTape() as tape:
            loss = jnp.sum(jnp.tanh(x * taped) ** 2)
        compute = mirrax.value_and_grad(
            lambda: jnp.sum(jnp.tanh(x * plain) ** 2), plain
        )
        value, expected = compute()
        gradients = context().all_reduce(
            "SUM", [tape.gradient(loss, taped), expected, loss - value]
        )
        taped.assign_sub(0.1 * gradients[0])
        plain.assign_sub(0.1 * gradients[1])
        return gradients[2]

    assert float(four_replicas.run(step, args=(x,))) == 0
    np.testing.assert_allclose(taped.numpy(), plain.numpy(), rtol=1e-6)
    assert not np.array_equal(taped.numpy(), weights)


# Where it cannot work.


def test_gradients_go_through_convolutions():
    # Its axes are a named tuple among the parameters of the equation.
    kernel = mirrax.Variable(jnp.ones([2, 1, 1]))
    image = jnp.arange(4.0).reshape(1, 4, 1)

    @mirrax.function
    def step():
        with mirrax.GradientTape() as tape:
            output = jax.lax.conv_general_dilated(
                image,
                kernel.value,
                (1,),
                "VALID",
                dimension_numbers=("NWC", "WIO", "NWC"),
            )
        return tape.gradient(output, kernel)

    assert step().reshape(-1).tolist() == [3, 6]


def test_source_that_is_listed_twice_has_its_gradient_twice():
    w = mirrax.Variable(3.0)

    @mirrax.function
    def slopes():
        with mirrax.GradientTape() as tape:
            y = w * w * w
        return tape.gradient(y, [w, w])

    assert [float(g) for g in slopes()] == [27.0, 27.0]


@engines
def test_gradient_reaches_through_a_source_to_those_before_it(engine):
    w = mirrax.Variable(3.0)

    def slopes():
        with mirrax.GradientTape() as tape:
            y = w * w
            z = y * y
        return tape.gradient(z, [w, y])

    assert [float(g) for g in engine(slopes)()] == [108.0, 18.0]


def test_constant_is_refused_as_a_source():
    @mirrax.function
    def slope():
        with mirrax.GradientTape() as tape:
            constant = jnp.asarray(2.0)
            tape.watch(constant)
            y = constant * constant
        return tape.gradient(y, constant)

    with pytest.raises(ValueError, match="Received: a constant"):
        slope()


# Jacobians, and tapes that leave something out.


@engines
def test_a_jacobian_has_the_dimensions_of_the_target_first(engine):
    w = mirrax.Variable([1.0, 2.0, 3.0])

    def program(x):
        with mirrax.GradientTape() as tape:
            y = x * w[:2] * w[2]
        return tape.jacobian(y, [w, x])

    of_w, of_x = engine(program)(jnp.array([5.0, 7.0]))
    # As TensorFlow 2.21 answers.
    assert np.asarray(of_w).tolist() == [[15.0, 0.0, 5.0], [0.0, 21.0, 14.0]]
    assert np.asarray(of_x).tolist() == [[3.0, 0.0], [0.0, 6.0]]


@engines
def test_the_jacobian_of_a_number_is_its_gradient(engine):
    w = mirrax.Variable([1.0, 2.0])

    def program():
        with mirrax.GradientTape() as tape:
            y = jnp.sum(w * w)
        return tape.jacobian(y, w)

    assert np.asarray(engine(program)()).tolist() == [2.0, 4.0]


@engines
def test_what_a_target_does_not_depend_on_has_no_jacobian(engine):
    w, other = mirrax.Variable([1.0, 2.0]), mirrax.Variable(np.ones((3, 1), np.float32))

    def program():
        with mirrax.GradientTape() as tape:
            y = w * w
        assert tape.jacobian(y, other) is None
        return tape.jacobian(y, other, unconnected_gradients="zero")

    assert engine(program)().shape == (2, 3, 1)


# Tapes of what was computed before.


def test_a_tape_records_what_its_function_computed_before(weight):
    def step(x):
        y = x * x * weight
        with mirrax.GradientTape(records_past=True) as tape:
            z = y * 2.0
        return tape.gradient(z, [x, weight])

    assert [float(g) for g in in_function(step, 2.0)] == [24, 8]


def test_gradients_of_what_was_computed_before_have_gradients(weight):
    def step(x):
        y = x * x * x
        for _ in range(2):
            with mirrax.GradientTape(records_past=True) as tape:
                pass
            y = tape.gradient(y, x)
        return y

    assert in_function(step, 2.0) == 12


def test_a_tape_of_the_past_is_asked_while_it_records(weight):
    def step(x):
        y = x * x
        with mirrax.GradientTape(records_past=True) as tape:
            first = tape.gradient(y, x)
            z = y * first
            return first, tape.gradient(z, x)

    assert [float(g) for g in in_function(step, 2.0)] == [4, 24]


def test_code_that_runs_eagerly_has_no_record_of_the_past(weight):
    tape = mirrax.GradientTape(records_past=True)
    with pytest.raises(RuntimeError, match=r"records_past=True.*Enter a tape"), tape:
        pass
