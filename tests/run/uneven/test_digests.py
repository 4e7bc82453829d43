import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive

from mirrax.run.uneven.digests import differing_columns, find_digests

# Too many to be printed; they differ in one.
MANY_KEYS = [
    jax.random.split(jax.random.key(0), 2000),
    jax.random.split(jax.random.key(0), 2000).at[999].set(jax.random.key(1)),
]
AXIS_ENV = [("replica", 2)]


def program(function, *shapes):
    stand_ins = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    return jax.make_jaxpr(function, axis_env=AXIS_ENV)(*stand_ins)


def compare(function, *shapes):
    """Returns what differs between `function(0, ...)` and `function(1, ...)`."""
    programs = [program(lambda *x, i=i: function(i, *x), *shapes) for i in (0, 1)]
    return differing_columns([find_digests(each) for each in programs])


opaque_p = Primitive("opaque")
opaque_p.def_abstract_eval(lambda x, does: x)


@dataclasses.dataclass(frozen=True)
class Hidden:
    number: int = dataclasses.field(repr=False)


def deep_constant(x, constant):
    """Adds an array that is a constant of a program in a branch."""
    added = jax.jit(lambda y: y + constant)
    return lax.cond(x.sum() > 0, added, lambda y: y, x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda i, x: x + 1, False),
        (lambda i, x: x + i, True),
        (lambda i, x: jnp.float32(i), True),
        (lambda i, x: jnp.float32(5), False),
        (lambda i, x: x * np.arange(3.0, dtype=np.float32) * (i + 1), True),
        (lambda i, x: lax.psum(x * (i + 1), "replica"), False),
        (lambda i, x: lax.psum(x, "replica") * (i + 1), True),
        (lambda i, x: jax.jit(lambda y: y + i)(x), True),
        (lambda i, x: jax.jit(lambda y: deep_constant(y, np.full(3, i)))(x), True),
        (lambda i, x: jax.random.normal(MANY_KEYS[i][999]) + x, True),
        (lambda i, x: jax.nn.relu(x), False),
        (lambda i, x: opaque_p.bind(x, does=lambda: i), True),
        (lambda i, x: jax.jit(lambda y: opaque_p.bind(y, does=lambda: i))(x), True),
        (lambda i, x: opaque_p.bind(x, does=Hidden(i)), True),
        (lambda i, x: opaque_p.bind(x, does=Hidden(7)), False),
        (lambda i, x: opaque_p.bind(x, does=program), False),
    ],
    ids=[
        "same",
        "constant_inside",
        "constant_result",
        "equal_constant",
        "array_inside",
        "before_a_collective",
        "after_a_collective",
        "inside_a_call",
        "inside_a_branch_in_a_call",
        "key",
        "custom_derivative",
        "own_function",
        "own_function_inside_a_call",
        "hidden_value",
        "equal_hidden_value",
        "same_function",
    ],
)
def test_differing_columns_finds_what_was_traced_differently(function, expected):
    assert compare(function, (3,)) == [expected]


def test_each_output_is_judged_on_its_own():
    assert compare(lambda i, x: (x, x + i, x * 2), (3,)) == [False, True, False]


def test_shapes_that_go_into_a_result_count():
    sizes = [program(lambda x: jnp.ones_like(x).sum(), (n,)) for n in (2, 3)]
    assert differing_columns([find_digests(each) for each in sizes]) == [True]


def pass_on(i, w, x):
    return w, x * i


def call(i, w, x):
    return jax.jit(lambda w, x: pass_on(i, w, x))(w, x)


def rematerialized(i, w, x):
    return jax.checkpoint(lambda w, x: pass_on(i, w, x))(w, x)


@pytest.mark.parametrize("function", [call, rematerialized])
def test_what_is_passed_through_does_not_differ(function):
    assert compare(function, (3,), (3,)) == [False, True]


def branch(i, x):
    return lax.cond(x[0] > 0, lambda x: x * i, lambda x: x, x)


def loop(i, x):
    return lax.scan(lambda carry, row: (carry, row * i), x, x)[1]


def loop_that_starts_with_it(i, x):
    return lax.fori_loop(0, 3, lambda _, y: y * 2, x + i)


@pytest.mark.parametrize("function", [branch, loop, loop_that_starts_with_it])
def test_what_a_loop_or_a_branch_uses_counts(function):
    assert compare(function, (3,)) == [True]
    assert compare(lambda i, x: function(7, x), (3,)) == [False]
