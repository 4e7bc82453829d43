"""What a tape leaves in a program, and the derivatives that take its place."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from mirrax._jax.jaxprs import all_equations
from mirrax.run.gradients.tape_rewrite import (
    connected,
    differentiate,
    gradient_p,
    mark_p,
    source_p,
)


def mark(what, tape=0):
    mark_p.bind(tape=tape, what=what)


def gradient(target, *sources, tape=0):
    return gradient_p.bind(target, *sources, tape=tape)


def program(fn, *arguments):
    closed = jax.make_jaxpr(fn)(*arguments)
    return differentiate(closed, ())


def evaluated(fn, *arguments):
    closed = program(fn, *arguments)
    names = {eqn.primitive.name for eqn in all_equations(closed.jaxpr)}
    assert not any(name.startswith("tape_") for name in names)
    found = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *arguments)
    return [value.tolist() for value in found]


def test_a_program_without_a_tape_is_handed_back():
    closed = jax.make_jaxpr(lambda x: x * 2)(1.0)
    assert differentiate(closed, ()) is closed


def test_a_wanted_gradient_becomes_a_derivative():
    def fn(x, y):
        mark("start")
        target = x * x * y
        mark("stop")
        return target, *gradient(target, x, y)

    assert evaluated(fn, 3.0, 5.0) == [45, 30, 9]


def test_marks_alone_leave_what_is_computed():
    def fn(x):
        mark("start")
        y = x * 2
        mark("stop")
        return y, source_p.bind(y)

    assert evaluated(fn, 3.0) == [6, 6]


def test_what_was_not_recorded_is_a_constant():
    def fn(x):
        before = x * x
        mark("start")
        target = before * x
        mark("pause")
        paused = x * 7.0
        mark("resume")
        target = target + paused * x
        mark("stop")
        return gradient(target, x)

    # The square counts as 9, the product as 21.
    assert evaluated(fn, 3.0) == [9 + 21]


def test_what_is_computed_after_the_tape_has_no_gradient():
    def fn(x):
        mark("start")
        y = x * 3.0
        mark("stop")
        return gradient(y * 2.0, x)

    assert evaluated(fn, 3.0) == [0]


def test_a_tape_that_starts_again_forgets():
    def fn(x):
        mark("start")
        y = x * 3.0
        mark("start")
        target = y * x
        mark("stop")
        return gradient(target, x)

    assert evaluated(fn, 2.0) == [6]


def test_a_detached_value_stops_the_gradient():
    def fn(x):
        mark("start")
        target = source_p.bind(x * x) * x
        mark("stop")
        return gradient(target, x)

    assert evaluated(fn, 3.0) == [9]


def test_a_gradient_reaches_through_a_source_to_those_before_it():
    def fn(x):
        mark("start")
        y = x * x
        target = y * y
        mark("stop")
        by_x, by_y, again = gradient(target, x, y, y)
        return y, target, by_x, by_y, again

    assert evaluated(fn, 3.0) == [9, 81, 108, 18, 18]


def test_a_source_that_is_named_twice_has_its_gradient_twice():
    def fn(x):
        mark("start")
        target = x * x
        mark("stop")
        return gradient(target, x, x)

    assert evaluated(fn, 3.0) == [6, 6]


def test_two_tapes_do_not_see_each_others_marks():
    def fn(x):
        mark("start", tape=0)
        y = x * 2.0
        mark("start", tape=1)
        target = y * x
        mark("stop", tape=1)
        mark("stop", tape=0)
        return *gradient(target, x, tape=0), *gradient(target, x, tape=1)

    assert evaluated(fn, 3.0) == [12, 6]


def test_a_tape_in_a_tape_gives_second_derivatives():
    def fn(x):
        mark("start", tape=0)
        mark("start", tape=1)
        target = x * x * x
        mark("stop", tape=1)
        (slope,) = gradient(target, x, tape=1)
        mark("stop", tape=0)
        return slope, *gradient(slope, x, tape=0)

    assert evaluated(fn, 2.0) == [12, 12]


def test_an_array_has_a_gradient_for_each_element():
    def fn(x, y):
        mark("start")
        target = x * y
        mark("stop")
        return gradient(target, x, y)

    by_x, by_y = evaluated(fn, jnp.array([1.0, 2.0]), jnp.float32(3))
    assert by_x == [[3, 0], [0, 3]]
    assert by_y == [1, 2]


@pytest.mark.parametrize(
    "around",
    [
        jax.jit,
        lambda fn: lambda x: lax.cond(x > 0, fn, lambda y: y, x),
        lambda fn: lambda x: lax.scan(lambda c, _: (fn(c), None), x, None, length=1)[0],
    ],
    ids=["jit", "cond", "scan"],
)
def test_a_tape_inside_another_program_is_found(around):
    def fn(x):
        mark("start")
        target = x * x
        mark("stop")
        return gradient(target, x)[0]

    assert evaluated(around(fn), 3.0) == [6]


def test_collectives_are_differentiated_in_their_axis():
    def fn(x):
        mark("start")
        target = lax.psum(x, "replica") * x
        mark("stop")
        return gradient(target, x)

    axis_env = [("replica", 2)]
    closed = jax.make_jaxpr(fn, axis_env=axis_env)(1.0)
    found = differentiate(closed, axis_env)

    def replica(x):
        return jax.core.eval_jaxpr(found.jaxpr, found.consts, x)[0]

    slopes = jax.vmap(replica, axis_name="replica")(jnp.array([1.0, 2.0]))
    assert slopes.tolist() == [6, 6]


# What a tape has recorded leads to.


def atoms(fn, *arguments):
    """Returns a program's equations, its inputs and its outputs."""
    jaxpr = jax.make_jaxpr(fn)(*arguments).jaxpr
    return jaxpr.eqns, jaxpr.invars, jaxpr.outvars


def test_sources_that_lead_to_the_target_are_connected():
    def fn(x, y, z):
        mark("start")
        target = x * 2.0 + y
        _ = z * 2.0
        mark("stop")
        return target

    eqns, (x, y, z), (target,) = atoms(fn, 1.0, 2.0, 3.0)
    assert connected(eqns, 0, target, [x, y, z]) == {x, y}
    assert connected(eqns, 0, target, []) == set()
    assert connected(eqns, 1, target, [x, y]) == set()


def test_a_source_that_is_the_target_is_connected():
    eqns, (x,), (target,) = atoms(lambda x: x, 1.0)
    assert connected(eqns, 0, target, [x]) == {x}


def test_a_source_behind_a_detached_value_is_not_connected():
    def fn(x, y):
        mark("start")
        target = source_p.bind(x * 2.0) * y
        mark("stop")
        return target

    eqns, (x, y), (target,) = atoms(fn, 1.0, 2.0)
    assert connected(eqns, 0, target, [x, y]) == {y}


def test_a_constant_is_connected_with_nothing():
    eqns, (x,), (target,) = atoms(lambda x: 2.0, 1.0)
    assert connected(eqns, 0, target, [x, target]) == set()
