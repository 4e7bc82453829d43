"""What runs once, although a gradient goes through it once more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import mirrax
from mirrax import GradientTape

SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def log(calls):
    return lambda x: calls.append(float(x))


@pytest.fixture
def number(calls):
    """Gives 1, then 2, and so on."""

    def draw(*_):
        calls.append("drawn")
        return np.float32(len(calls))

    return draw


def slopes(fn):
    """Returns the gradient of `fn(2.0)`, asked for twice."""
    x = jnp.float32(2)
    with GradientTape() as tape:
        y = fn(x)
    found = [float(tape.gradient(y, x)) for _ in range(2)]
    jax.effects_barrier()
    return found


def test_a_print_in_a_program_is_not_repeated(calls, log):
    @jax.jit
    def square(x):
        jax.debug.callback(log, x)
        return x * x

    assert slopes(square) == [4, 4]
    assert calls == [2]


def test_formatted_prints_are_not_repeated(capsys):
    @jax.jit
    def square(x):
        jax.debug.print("x is {x}", x=x)
        return x * x

    assert slopes(square) == [4, 4]
    assert capsys.readouterr().out == "x is 2.0\n"


def test_prints_of_programs_in_programs_are_not_repeated(calls, log):
    @jax.jit
    def inner(x):
        jax.debug.callback(log, x)
        return x * x

    assert slopes(jax.jit(lambda x: inner(x) * 3)) == [12, 12]
    assert calls == [2]


@pytest.mark.parametrize("is_ordered", [False, True], ids=["unordered", "ordered"])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_prints_in_loops_are_not_repeated(calls, log, wrap, is_ordered):
    def body(total, _):
        jax.debug.callback(log, total, ordered=is_ordered)
        return total * total, None

    def power(x):
        return jax.lax.scan(body, x, None, length=2)[0]

    assert slopes(wrap(power)) == [32, 32]
    assert sorted(calls) == [2, 4]


def test_prints_in_branches_are_not_repeated(calls, log):
    def branch(x):
        jax.debug.callback(log, x)
        return x * x

    assert slopes(lambda x: jax.lax.cond(x > 0, branch, jnp.sin, x)) == [4, 4]
    assert calls == [2]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("call", [jax.pure_callback, io_callback], ids=["pure", "io"])
def test_what_a_callback_gave_is_used_again(calls, number, wrap, call):
    assert slopes(wrap(lambda x: x * x * call(number, SCALAR))) == [4, 4]
    assert calls == ["drawn"]


def test_arguments_without_a_gradient_may_go_to_a_callback(calls, number):
    def scaled(x):
        return x * jax.pure_callback(number, SCALAR, jax.lax.stop_gradient(x))

    assert slopes(jax.jit(scaled)) == [1, 1]
    assert calls == ["drawn"]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_gradient_through_a_callback_is_refused(number, wrap):
    with pytest.raises(ValueError, match=r"A callback into Python has no derivative"):
        slopes(wrap(lambda x: jax.pure_callback(number, SCALAR, x)))


def test_data_from_a_callback_in_a_loop_are_refused(number):
    def power(x):
        def body(c, _):
            return c * io_callback(number, SCALAR), None

        return jax.lax.scan(body, x, None, length=2)[0]

    with pytest.raises(RuntimeError, match=r"`io_callback` that gives a value inside"):
        slopes(power)


def test_second_derivatives_go_through_programs_with_callbacks(calls, log):
    @jax.jit
    def cube(x):
        jax.debug.callback(log, x)
        return x**3

    x = jnp.float32(2)
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = cube(x)
        slope = inner.gradient(y, x)
    assert float(slope) == 12
    assert float(outer.gradient(slope, x)) == 12
    jax.effects_barrier()
    assert calls == [2]


def test_a_program_compiled_ahead_of_time_is_refused_on_the_way():
    square = jax.jit(lambda x: x * x).lower(1.0).compile()
    with pytest.raises(RuntimeError, match=r"compiled ahead of time.*Call `jax.jit"):
        slopes(lambda x: square(x) * 2)


def test_a_program_compiled_ahead_of_time_may_stand_beside_the_way():
    square = jax.jit(lambda x: x * x).lower(1.0).compile()
    assert slopes(lambda x: x * square(3.0)) == [9, 9]
    assert float(square(2.0)) == 4


def test_both_tapes_see_a_program_compiled_ahead_of_time():
    square = jax.jit(lambda x: x * x).lower(1.0).compile()
    x = jnp.float32(2)
    with GradientTape() as outer, GradientTape():
        y = square(x)
    with pytest.raises(RuntimeError, match=r"compiled ahead of time"):
        outer.gradient(y, x)


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
    with pytest.raises(RuntimeError, match=r"is read inside jax.jit"):
        square(1.0)
