"""Variables that are assigned while a tape records: TensorFlow 2.21's answers."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import GradientTape

engines = pytest.mark.parametrize(
    "engine", [lambda fn: fn, mirrax.function], ids=["eager", "compiled"]
)

PROGRAMS = {}
"""Functions of two variables, which are 2 and 3; what they return, and the variables
after that."""


def program(results, a=2.0, b=3.0):
    def add(fn):
        PROGRAMS[fn.__name__] = (fn, results, [a, b])
        return fn

    return add


@program([25, 10], a=5)
def assigned_then_used(a, b):
    with GradientTape() as tape:
        a.assign(5.0)
        y = a * a
    return y, tape.gradient(y, a)


@program([4, 4], a=7)
def used_then_assigned(a, b):
    with GradientTape() as tape:
        y = a * a
        a.assign(7.0)
    return y, tape.gradient(y, a)


@program([10, 7], a=5)
def read_before_and_after(a, b):
    with GradientTape() as tape:
        y = a * 1.0
        a.assign(5.0)
        z = y * a
    return z, tape.gradient(z, a)


@program([33, 3, None], a=11)
def expression_added(a, b):
    with GradientTape() as tape:
        a.assign_add(b * b)
        y = a * 3.0
    return y, *tape.gradient(y, [a, b])


@program([36, 12, None], a=6)
def assigned_from_itself(a, b):
    with GradientTape() as tape:
        a.assign(a * b)
        y = a * a
    return y, *tape.gradient(y, [a, b])


@program([20, 13, 9], a=3, b=2)
def swapped(a, b):
    with GradientTape() as tape:
        x = a + 0.0
        a.assign(b.value)
        b.assign(x)
        z = a * a * b + x
    return z, *tape.gradient(z, [a, b])


@program([3, 2, 3, 10, 3], a=10)
def asked_repeatedly(a, b):
    with GradientTape(persistent=True) as tape:
        y = a * b
        a.assign(10.0)
        z = a * b
    first, second = tape.gradient(y, [a, b]), tape.gradient(z, [a, b])
    return *first, *second, tape.gradient(y, a)


@program([36, 36, 12])
def nested(a, b):
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = a * a * a * b
        slope = inner.gradient(y, a)
    return slope, *outer.gradient(slope, [a, b])


@program([36, 36, 72, 12], a=1)
def nested_and_assigned(a, b):
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = a * a * a * b
            a.assign(1.0)
        slope = inner.gradient(y, a)
        z = slope * a
    return slope, z, *outer.gradient(z, [a, b])


@program([16, 4, None])
def not_recorded(a, b):
    with GradientTape() as tape:
        x = a * a
        with tape.stop_recording():
            y = x * b
        z = x + y
    return z, *tape.gradient(z, [a, b])


@program([36, 40], a=9)
def assigned_while_not_recording(a, b):
    with GradientTape() as tape:
        x = a * a
        with tape.stop_recording():
            a.assign(9.0)
        z = x * a
    return z, tape.gradient(z, a)


@program([12, 12])
def asked_while_it_records(a, b):
    with GradientTape(persistent=True) as tape:
        y = a * a * a
        slope = tape.gradient(y, a)
    return slope, tape.gradient(slope, a)


@program([12, None])
def first_gradient_asked_outside(a, b):
    with GradientTape() as outer, GradientTape() as inner:
        y = a * a * a
    slope = inner.gradient(y, a)
    return slope, outer.gradient(slope, a)


@program([None])
def computed_after_the_block(a, b):
    with GradientTape() as tape:
        y = a * a
    return (tape.gradient(y * 2.0, a),)


@program([3, 2])
def reset(a, b):
    with GradientTape() as tape:
        y = a * a
        tape.reset()
        z = a * b + y
    return tape.gradient(z, [a, b])


@program([1, None])
def watched_after_a_use(a, b):
    with GradientTape(watch_accessed_variables=False) as tape:
        y = a * b
        tape.watch(a)
        z = y + a
    return tape.gradient(z, [a, b])


@program([18, 3, 6], a=6)
def assigned_from_a_branch(a, b):
    with GradientTape() as tape:
        y = jax.lax.cond(a > 1.0, lambda: a * b, lambda: b * 1.0)
        a.assign(y)
        z = a * b
    return z, *tape.gradient(z, [a, b])


@program([1])
def target_is_the_variable(a, b):
    with GradientTape() as tape:
        a * 1.0
    return (tape.gradient(a, a),)


@program([1, None])
def target_is_a_variable_that_was_not_read(a, b):
    with GradientTape() as tape:
        pass
    return tape.gradient(a, [a, b])


@engines
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_tensorflow(engine, name):
    fn, results, after = PROGRAMS[name]
    a, b = mirrax.Variable(2.0), mirrax.Variable(3.0)
    found = engine(lambda: tuple(fn(a, b)))()
    assert [None if x is None else float(x) for x in found] == results
    assert [float(a.numpy()), float(b.numpy())] == after


@engines
def test_a_variable_of_integers_has_no_gradient(engine):
    a, count = mirrax.Variable(2.0), mirrax.Variable(3)

    def step():
        with GradientTape() as tape:
            y = a * count
        return tape.gradient(y, [a, count])

    slope, missing = engine(step)()
    assert float(slope) == 3
    assert missing is None


@engines
def test_a_mirrored_variable_is_assigned_in_a_tape(two_replicas, engine):
    with two_replicas.scope():
        w = mirrax.Variable(2.0, aggregation=mirrax.VariableAggregation.MEAN)

    def step():
        with GradientTape() as tape:
            before = w * 1.0
            w.assign_add(3.0)
            y = before * w
        return y, tape.gradient(y, w)

    y, slope = two_replicas.run(engine(step))
    assert [float(x) for x in two_replicas.experimental_local_results(y)] == [10, 10]
    found = two_replicas.experimental_local_results(slope)
    assert [float(x) for x in found] == [7, 7]
    assert float(w.numpy()) == 5


def test_a_variable_can_be_read_after_a_tape_in_a_scan():
    w = mirrax.Variable(2.0)

    @mirrax.function
    def step():
        before = w * 1.0

        def body(total, _):
            with GradientTape() as tape:
                y = w * w * total
            return total + tape.gradient(y, w), None

        return jax.lax.scan(body, before, None, length=2)[0], w * 3.0

    total, after = step()
    assert (float(total), float(after)) == (50, 6)


def test_a_tape_in_a_derivative_is_differentiated():
    w = mirrax.Variable(2.0)

    def slope(x):
        with GradientTape() as tape:
            y = w * w * x * x * x
        return tape.gradient(y, x)

    @mirrax.function
    def step():
        return jax.grad(slope)(3.0), jax.vmap(slope)(jnp.arange(3.0))

    second, many = step()
    assert float(second) == 72
    assert many.tolist() == [0, 12, 48]


def test_a_tape_in_value_and_grad_is_differentiated():
    w = mirrax.Variable(2.0)

    def slope():
        with GradientTape() as tape:
            y = w * w * w
            w.assign(5.0)
        return tape.gradient(y, w)

    step = mirrax.function(mirrax.value_and_grad(slope, w))
    assert [float(x) for x in step()] == [12, 12]
    assert float(w.numpy()) == 5


def test_a_gradient_can_be_asked_for_in_a_branch():
    w = mirrax.Variable(2.0)

    @mirrax.function
    def step(x):
        with GradientTape() as tape:
            y = w * w * w
        return jax.lax.cond(x > 0, lambda: tape.gradient(y, w), lambda: 0.0)

    assert [float(step(1.0)), float(step(-1.0))] == [12, 0]


def test_a_gradient_of_a_branch_by_a_tape_around_it_is_refused():
    w = mirrax.Variable(2.0)

    @mirrax.function
    def step(x):
        with GradientTape() as tape:
            jax.lax.cond(x > 0, lambda: tape.gradient(w * x, w), lambda: 0.0)

    with pytest.raises(RuntimeError, match=r"from inside of a scan, cond or jit"):
        step(1.0)


@engines
def test_a_variable_with_a_copy_for_each_replica_is_read_combined(two_replicas, engine):
    weight = mirrax.Variable(3.0)
    with two_replicas.scope():
        total = mirrax.Variable(
            1.0,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.MEAN,
        )

    def step():
        with mirrax.GradientTape() as tape:
            before = total.read_value()
            total.assign(2.0)
            value = weight * before * total
        return value, tape.gradient(value, weight)

    assert [float(each) for each in engine(step)()] == [6, 2]
