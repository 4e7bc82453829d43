"""Walking through programs, and evaluating them equation by equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from mirrax._jax.jaxprs import (
    all_equations,
    bind,
    called_jaxpr,
    initial_values,
    inner_jaxprs,
    kind_of,
    read,
    rebuilt,
    stand_ins,
)

SCALAR = jax.ShapeDtypeStruct((), "float32")


def traced(fn, *arguments):
    return jax.make_jaxpr(fn)(*(arguments or (SCALAR,)))


def names(equations):
    return [equation.primitive.name for equation in equations]


def twice(x):
    return x * 2


@jax.custom_jvp
def with_own_jvp(x):
    return x * 2


with_own_jvp.defjvp(lambda given, tangents: (given[0] * 2, tangents[0] * 2))


@jax.custom_vjp
def with_own_vjp(x):
    return x * 2


with_own_vjp.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))


def test_a_program_without_steps_has_no_equations():
    assert list(all_equations(traced(lambda x: x).jaxpr)) == []


def test_equations_come_with_those_inside_them():
    closed = traced(lambda x: jax.jit(lambda y: jnp.sin(jax.jit(jnp.cos)(y)))(x) + 1)
    found = names(all_equations(closed.jaxpr))
    assert [name for name in found if name != "jit"] == ["cos", "sin", "add"]


def test_every_branch_is_looked_into():
    closed = traced(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x))
    assert {"sin", "cos"} <= set(names(all_equations(closed.jaxpr)))


def test_programs_with_and_without_constants_are_found_in_an_equation():
    """A loop has two with constants, a checkpoint one without."""
    loop = traced(lambda x: lax.while_loop(lambda y: y < 9, twice, x)).eqns[-1]
    assert len(list(inner_jaxprs(loop))) == 2
    (kept,) = traced(jax.checkpoint(twice)).eqns
    assert [names(inner.eqns) for inner in inner_jaxprs(kept)] == [["mul"]]
    (plain,) = traced(twice).eqns
    assert list(inner_jaxprs(plain)) == []


@pytest.mark.parametrize(
    "fn",
    [jax.jit(twice), jax.checkpoint(twice), with_own_jvp, with_own_vjp],
    ids=["jit", "checkpoint", "custom_jvp", "custom_vjp"],
)
def test_the_program_of_a_plain_call_is_what_it_computes(fn):
    (equation,) = traced(fn).eqns
    called = called_jaxpr(equation)
    assert jax.core.eval_jaxpr(called.jaxpr, called.consts, 3.0) == [6.0]


@pytest.mark.parametrize(
    "fn",
    [
        jnp.sin,
        lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=2)[0],
        lambda x: lax.cond(x > 0, twice, jnp.sin, x),
        lambda x: lax.while_loop(lambda y: y < 9, twice, x),
    ],
    ids=["operation", "scan", "cond", "while"],
)
def test_loops_branches_and_operations_are_no_plain_calls(fn):
    assert called_jaxpr(traced(fn).eqns[-1]) is None


def test_a_program_is_evaluated_equation_by_equation():
    offset = np.arange(3, dtype=np.float32)

    def fn(x, y):
        return x * 2 + jnp.asarray(offset), jnp.float32(7), y

    closed = traced(fn, jax.ShapeDtypeStruct((3,), "float32"), SCALAR)
    values = initial_values(closed, [jnp.ones(3), 5.0])
    for equation in closed.eqns:
        given = [read(values, atom) for atom in equation.invars]
        made = bind(equation, given, equation.params)
        values.update(zip(equation.outvars, made, strict=True))
    total, constant, same = (read(values, atom) for atom in closed.jaxpr.outvars)
    assert total.tolist() == [2, 3, 4]
    assert (float(constant), same) == (7, 5.0)


def test_another_number_of_inputs_is_refused():
    closed = traced(lambda x, y: x + y, SCALAR, SCALAR)
    with pytest.raises(ValueError, match="shorter"):
        initial_values(closed, [1.0])


def test_outputs_come_as_a_list_however_many_there_are():
    (one,) = traced(jnp.sin).eqns
    assert [float(x) for x in bind(one, [jnp.float32(0)], one.params)] == [0]
    top_k = jax.make_jaxpr(lambda x: lax.top_k(x, 1))(jnp.ones(3)).eqns[-1]
    values, indices = bind(top_k, [jnp.array([1.0, 3.0, 2.0])], top_k.params)
    assert (values.tolist(), indices.tolist()) == ([3], [1])


def test_other_parameters_can_be_given():
    (equation,) = jax.make_jaxpr(lambda x: lax.cumsum(x, axis=0))(jnp.ones(3)).eqns
    given = jnp.arange(3.0)
    params = {**equation.params, "reverse": True}
    assert bind(equation, [given], params)[0].tolist() == [3, 3, 2]


def test_a_call_with_its_own_gradient_keeps_it_when_it_is_bound():
    @jax.custom_jvp
    def odd(x):
        return x * 2

    odd.defjvp(lambda given, tangents: (given[0] * 2, tangents[0] * 10))
    (equation,) = traced(odd).eqns
    slope = jax.grad(lambda x: bind(equation, [x], equation.params)[0])
    assert float(slope(1.0)) == 10


def test_an_equation_is_bound_in_the_context_it_was_traced_in():
    def noted(x):
        with set_xla_metadata(note="mine"):
            return jnp.sin(x)

    (equation,) = traced(noted).eqns

    def again(x):
        return bind(equation, [x], equation.params)

    (made,) = traced(again).eqns
    assert made.ctx.xla_metadata == equation.ctx.xla_metadata == {"note": "mine"}


def test_a_program_is_rebuilt_from_some_of_its_equations():
    closed = traced(lambda x: (x * 2, jnp.sin(x)))
    double, _ = closed.eqns
    small = rebuilt(closed.jaxpr, (), closed.jaxpr.invars, double.outvars, [double])
    assert jax.core.eval_jaxpr(small, (), 3.0) == [6.0]
    assert names(small.eqns) == ["mul"]
    assert small.debug_info.func_name == closed.jaxpr.debug_info.func_name


def test_a_rebuilt_program_has_the_effects_of_its_equations():
    closed = traced(lambda x: (jax.debug.print("{}", x), x * 2)[1])
    printing, double = closed.eqns
    assert closed.effects

    def effects(*equations):
        inputs = closed.jaxpr.invars
        return rebuilt(closed.jaxpr, (), inputs, (), equations).effects

    assert effects(printing) == closed.effects
    assert effects(double) == frozenset()
    assert effects() == frozenset()


def test_the_kind_of_a_variable_or_a_literal_is_shape_and_dtype():
    (equation,) = traced(lambda x: x * 2, jax.ShapeDtypeStruct((3, 0), "int8")).eqns
    variable, literal = equation.invars
    assert kind_of(variable) == ((3, 0), np.dtype("int8"))
    assert kind_of(literal) == ((), np.dtype("int8"))


def test_descriptions_of_inputs_trace_the_same_program():
    closed = jax.make_jaxpr(lambda n, x, k: x * n)(2, jnp.ones((2, 1), "bfloat16"), 1)
    described = stand_ins(closed.jaxpr)
    assert [(s.shape, str(s.dtype), s.weak_type) for s in described] == [
        ((), "int32", True),
        ((2, 1), "bfloat16", False),
        ((), "int32", True),
    ]
    again = jax.make_jaxpr(lambda n, x, k: x * n)(*described)
    assert str(again) == str(closed)
    nothing = jax.make_jaxpr(lambda: 1.0)()
    assert stand_ins(nothing.jaxpr) == []
