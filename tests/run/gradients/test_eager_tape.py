"""Tapes in code that runs eagerly."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import GradientTape


def test_gradients_of_variables_and_arrays_together():
    w, x = mirrax.Variable([1.0, 2.0]), jnp.asarray(3.0)
    with GradientTape() as tape:
        y = jnp.sum(w * w * x)
    found = tape.gradient(y, {"w": w, "x": x})
    assert found["w"].tolist() == [6, 12]
    assert float(found["x"]) == 5


def test_values_inside_the_block_are_plain_arrays():
    w = mirrax.Variable(2.0)
    with GradientTape():
        y = w * w
        assert float(y) == 4
        assert not isinstance(y, jax.core.Tracer)
        assert y.tolist() == 4


def test_a_tape_can_be_asked_repeatedly_and_after_assignments():
    w = mirrax.Variable(3.0)
    with GradientTape(persistent=True) as tape:
        y = w * w
        z = jax.nn.relu(w) * w
    assert float(tape.gradient(y, w)) == 6
    w.assign(100.0)
    assert float(tape.gradient(z, w)) == 6
    assert float(tape.gradient(y, w)) == 6


def test_a_tape_that_records_cannot_be_entered():
    tape = GradientTape()
    again = pytest.raises(ValueError, match="Tape is still recording")
    with tape, again, tape:
        pass


def test_a_function_inside_is_recorded():
    w = mirrax.Variable(2.0)
    cube = mirrax.function(lambda x: x * w * w)
    with GradientTape() as tape:
        y = cube(3.0)
    assert float(tape.gradient(y, w)) == 12


def test_programs_of_jax_that_read_variables_are_recorded():
    w = mirrax.Variable(2.0)

    @jax.jit
    def scaled(x):
        return x * w.value

    def slope():
        with GradientTape() as tape:
            y = scaled(3.0) * w
            z, _ = jax.lax.scan(lambda c, x: (c * w + x, None), 1.0, jnp.arange(2.0))
        return float(y), float(tape.gradient(y + z, w) or 0), tape.gradient([y, z], w)

    assert slope()[0] == 12
    assert float(slope()[2]) == 12 + 4
    w.assign(3.0)
    assert float(slope()[2]) == 18 + 6


@pytest.mark.parametrize("transform", [jax.vmap, jax.jacfwd], ids=["vmap", "jacfwd"])
def test_transformed_programs_that_read_variables_are_recorded(transform):
    w = mirrax.Variable(2.0)
    scaled = jax.jit(transform(lambda x: x * w * w))

    def slope():
        with GradientTape() as tape:
            y = jnp.sum(scaled(jnp.ones(3)))
        return float(tape.gradient(y, w))

    assert slope() == 12
    w.assign(3.0)
    assert slope() == 18


def test_functions_with_a_derivative_of_their_own():
    @jax.custom_vjp
    def odd(x):
        return x

    odd.defvjp(lambda x: (x, None), lambda _, upstream: (upstream * 7,))
    x = jnp.asarray(1.0)
    with GradientTape(persistent=True) as tape:
        y = odd(x) * 2
        z = jax.nn.silu(x)
        stopped = jax.lax.stop_gradient(x) * x
        hidden = odd(jax.lax.stop_gradient(x)) * x
    assert float(tape.gradient(stopped, x)) == 1
    assert float(tape.gradient(hidden, x)) == 1
    assert float(tape.gradient(y, x)) == 14
    assert float(tape.gradient(y, x)) == 14
    np.testing.assert_allclose(tape.gradient(z, x), jax.grad(jax.nn.silu)(1.0))


def test_an_array_of_numpy_is_refused_as_a_source():
    x = np.ones(2, np.float32)
    with GradientTape() as tape:
        y = jnp.sum(x)
    with pytest.raises(ValueError, match=r"Received: ndarray.*tf.convert_to_tensor"):
        tape.gradient(y, x)


def test_an_error_in_the_block_ends_the_recording():
    w = mirrax.Variable(2.0)
    with pytest.raises(ZeroDivisionError), GradientTape():
        1 / 0  # noqa: B018
    assert float(mirrax.function(lambda: w * 2)()) == 4


def test_what_was_noted_goes_with_the_tape():
    w = mirrax.Variable(jnp.ones(3))
    gc.disable()
    try:
        with GradientTape() as tape:
            inner = jnp.sin(w * 2)
            y = jnp.sum(inner)
        tape.gradient(y, w)
        noted = weakref.ref(inner)
        del inner, y
        assert noted() is not None
        del tape
        assert noted() is None
    finally:
        gc.enable()


def test_a_step_that_assigns_is_not_compiled_anew():
    w, count = mirrax.Variable(2.0), mirrax.Variable(0.0)
    cube = jax.jit(lambda x: traces.append(1) or x**3)
    traces = []
    for _ in range(3):
        with GradientTape() as tape:
            count.assign_add(1.0)
            y = cube(w.value)
        assert float(tape.gradient(y, w)) == 12
    assert float(count.numpy()) == 3
    assert len(traces) == 1


def test_in_an_eager_run_each_replica_has_its_own_tape(strategy):
    with strategy.scope():
        w = mirrax.Variable(2.0, aggregation=mirrax.VariableAggregation.MEAN)

    def step():
        context = mirrax.get_replica_context()
        number = context.replica_id_in_sync_group + 1.0
        with GradientTape() as tape:
            loss = context.all_reduce("SUM", number * w) * number
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.0 * gradient)
        return loss, gradient

    eager = strategy.run(step)
    compiled = strategy.run(mirrax.function(step))
    for ours, theirs in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(
            strategy.gather(jnp_rows(strategy, ours), axis=0),
            strategy.gather(jnp_rows(strategy, theirs), axis=0),
        )


def jnp_rows(strategy, value):
    return strategy.run(lambda x: jnp.reshape(x, (1,)), args=(value,))


def test_value_and_grad_inside_a_tape():
    w = mirrax.Variable(3.0)
    with GradientTape() as tape:
        value, slope = mirrax.value_and_grad(lambda: w * w * w, w)()
    assert float(value) == 27
    assert float(tape.gradient(slope, w)) == 18


def test_a_source_computed_from_another_may_hold_infinities():
    logits = jnp.asarray([-jnp.inf, 1.0, 2.0])
    with GradientTape() as tape:
        shifted = logits + 1.0
        loss = jax.nn.softmax(shifted)[1]
    alone = tape.gradient(loss, logits)
    together, _ = tape.gradient(loss, [logits, shifted])
    np.testing.assert_allclose(together, alone, rtol=1e-6)


def test_a_tape_that_is_entered_again_goes_on():
    variable = mirrax.Variable(3.0)
    with GradientTape() as tape:
        square = variable * variable
    with tape:
        other = variable * 2.0
    assert float(tape.gradient(square, variable)) == 6
    assert float(tape.gradient(other, variable)) == 2


def test_a_run_over_replicas_inside_a_tape_is_refused(two_replicas):
    tape = GradientTape()
    with tape, pytest.raises(RuntimeError, match="Put the tape into the function"):
        two_replicas.run(lambda: 1.0)


def test_variables_that_are_combined_on_reading_can_be_assigned(two_replicas):
    with two_replicas.scope():
        total = mirrax.Variable(
            1.0,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
        )
    with GradientTape():
        total.assign(4.0)
    assert float(total.numpy()) == 4


def test_copies_of_a_sync_on_read_variable_have_gradients(two_replicas):
    with two_replicas.scope():
        total = mirrax.Variable(
            2.0,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
            trainable=True,
        )

    def step():
        total.assign_add(mirrax.get_replica_context().replica_id_in_sync_group)
        with GradientTape() as tape:
            loss = total * total
        return tape.gradient(loss, total)

    gradients = two_replicas.run(step)
    assert [float(x) for x in gradients.values] == [4.0, 6.0]


def test_a_program_that_reads_variables_is_traced_once():
    w = mirrax.Variable(0.0)
    traces = []

    @jax.jit
    def scaled(x):
        traces.append(1)
        return x * w * w

    found = []
    for value in (1.0, 2.0):
        w.assign(value)
        with GradientTape() as tape:
            before = scaled(1.0)
            w.assign(10.0)
            after = scaled(1.0)
        found += [float(tape.gradient(y, w)) for y in (before, after)]
    assert found == [2, 20, 4, 20]
    assert len(traces) == 1


def test_a_program_kept_for_tapes_is_not_used_elsewhere():
    w = mirrax.Variable(3.0)
    square = jax.jit(lambda x: x * w * w)
    with GradientTape() as tape:
        value, slope = mirrax.value_and_grad(lambda: square(1.0), w)()
        y = square(1.0)
    assert [float(x) for x in (value, slope, tape.gradient(y, w))] == [9, 6, 6]
    assert float(mirrax.value_and_grad(lambda: square(1.0), w)()[1]) == 6
    assert float(mirrax.function(lambda: square(1.0))()) == 9
    with pytest.raises(RuntimeError, match=r"was read inside jax.jit"):
        square(1.0)
