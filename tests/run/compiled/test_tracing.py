"""From Python to a program with variables as inputs and outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.context import stack
from mirrax.run.compiled.tracing import trace
from mirrax.variables.overlay import read_p

SCALAR = jax.ShapeDtypeStruct((), "float32")


def traced(fn, *arguments, inside_replica=False, axis_env=()):
    """Traces `fn`, which returns an array."""

    def body(*values):
        return ([fn(*values)], "about the result")

    return trace(body, arguments, inside_replica, axis_env)


def test_a_program_of_arguments_alone_has_no_variables():
    program = traced(lambda x: x + 1, SCALAR)
    assert (program.reads, program.writes) == ((), ())
    assert program.evaluate([2.0], []) == [3.0]


def test_what_is_said_about_the_result_is_kept():
    assert traced(lambda x: x, SCALAR).result == "about the result"


def test_a_variable_that_is_read_is_an_input():
    variable = mirrax.Variable(2.0)
    program = traced(lambda x: x * variable, SCALAR)
    assert program.reads == (variable,)
    assert program.evaluate([3.0], [5.0]) == [15.0]


def test_a_variable_that_is_read_twice_is_one_input():
    variable = mirrax.Variable(2.0)
    program = traced(lambda: variable * variable)
    assert program.reads == (variable,)


def test_a_variable_that_is_written_is_an_output():
    variable = mirrax.Variable(2.0)

    def fn(x):
        variable.assign(x * 2)
        return x

    program = traced(fn, SCALAR)
    assert program.writes == (variable,)
    assert program.evaluate([3.0], [0.0] * len(program.reads)) == [6.0, 3.0]


def test_a_write_is_seen_by_later_reads():
    variable = mirrax.Variable(2.0)

    def fn(x):
        variable.assign_add(x)
        return variable * 10

    program = traced(fn, SCALAR)
    assert program.evaluate([3.0], [4.0]) == [7.0, 70.0]


def test_a_variable_written_twice_is_one_output():
    variable = mirrax.Variable(2.0)

    def fn():
        variable.assign_add(1.0)
        variable.assign_add(1.0)
        return variable.value

    program = traced(fn)
    assert program.writes == (variable,)
    assert program.evaluate([], [1.0]) == [3.0, 3.0]


def test_tracing_leaves_the_variable_as_it_is():
    variable = mirrax.Variable(2.0)
    traced(lambda: variable.assign(5.0).value)
    assert variable.numpy() == 2


def test_no_read_is_left_in_the_program():
    variable = mirrax.Variable(2.0)
    program = traced(lambda: variable + 1)
    assert read_p not in [equation.primitive for equation in program.jaxpr.eqns]


@pytest.mark.parametrize(
    "fn",
    [
        lambda v: jax.lax.scan(lambda c, _: (c + v, None), 0.0, None, length=2)[0],
        lambda v: jax.lax.cond(True, lambda: v + 0, lambda: 1.0),
        lambda v: jax.jit(lambda: 2 * v)(),
        lambda v: jax.vmap(lambda x: x * v)(jnp.ones(2)).sum(),
        lambda v: jax.grad(lambda x: x * v)(1.0) * 2,
    ],
    ids=["scan", "cond", "jit", "vmap", "grad"],
)
def test_a_first_read_inside_a_transformation_is_an_input(fn):
    variable = mirrax.Variable(2.0)
    program = traced(lambda: fn(variable))
    assert program.reads == (variable,)
    assert program.evaluate([], [jnp.float32(3)])[0] in (3, 6)


@pytest.mark.parametrize(
    "transform",
    [
        lambda fn: jax.lax.scan(lambda c, _: (fn(c), None), 0.0, None, length=2),
        lambda fn: jax.lax.cond(True, fn, lambda x: x, 0.0),
        lambda fn: jax.jit(fn)(0.0),
        lambda fn: jax.vmap(fn)(jnp.ones(2)),
        lambda fn: jax.grad(fn)(0.0),
    ],
    ids=["scan", "cond", "jit", "vmap", "grad"],
)
def test_a_write_inside_a_transformation_is_refused(transform):
    variable = mirrax.Variable(2.0, name="mine")

    def write(x):
        variable.assign(jnp.float32(1))
        return x

    with pytest.raises(RuntimeError, match=r"'mine:0' was assigned inside a JAX"):
        traced(lambda: transform(write) and 0)


def test_an_error_leaves_no_overlay_behind():
    with pytest.raises(KeyError, match="mine"):
        traced(lambda: {}["mine"])
    assert stack.overlay() is None


def test_the_axis_is_known_while_tracing():
    program = traced(
        lambda x: jax.lax.psum(x, "replica"),
        SCALAR,
        inside_replica=True,
        axis_env=[("replica", 2)],
    )
    assert "psum" in program.jaxpr.eqns[0].primitive.name


def test_a_sync_on_read_variable_is_whole_outside_a_replica(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(
            np.zeros(3, np.float32),
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
        )
    assert variable.traced_aval(inside_replica=False).shape == (6,)
    assert variable.traced_aval(inside_replica=True).shape == (3,)


def test_closed_over_arrays_are_constants_of_the_program():
    array = jnp.arange(3.0)
    program = traced(lambda x: x * array, SCALAR)
    np.testing.assert_array_equal(program.evaluate([2.0], [])[0], [0, 2, 4])
