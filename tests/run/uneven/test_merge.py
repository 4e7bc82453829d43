import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive

from mirrax.run.uneven.merge import merged
from mirrax.run.varying import find_varying

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
    return varying([program(lambda *x, i=i: function(i, *x), *shapes) for i in (0, 1)])


def varying(programs):
    jaxpr = merged(programs, [0, 1]).jaxpr
    return find_varying(jaxpr, [False] * len(jaxpr.invars))


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
    assert varying(sizes) == [True]


def pass_on(i, w, x):
    return w, x * i


def call(i, w, x):
    return jax.jit(lambda w, x: pass_on(i, w, x))(w, x)


def rematerialized(i, w, x):
    return jax.checkpoint(lambda w, x: pass_on(i, w, x))(w, x)


@pytest.mark.parametrize("function", [call, rematerialized])
def test_what_is_passed_through_does_not_differ(function):
    assert compare(function, (3,), (3,)) == [False, True]


# Loops and branches with collectives.


def total(x):
    return lax.psum(x, "replica")


def test_what_a_loop_carries_differs_only_where_it_uses_what_differs():
    def fn(i, x):
        def body(carry, y):
            combined, own, later, latest = carry
            own = own + y * (i + 1)
            return (combined + total(own), own, later + own, latest + later), total(y)

        return lax.scan(body, (0.0, 0.0, 0.0, 0.0), x)

    assert compare(fn, (3,)) == [False, True, True, True, False]


def test_what_a_loop_starts_with_counts():
    def fn(i, x):
        def body(carry, y):
            first, second = carry
            return (first + total(y), second + total(y)), None

        return lax.scan(body, (0.0, jnp.float32(i)), x)[0]

    assert compare(fn, (3,)) == [False, True]


def test_what_an_inner_loop_uses_of_the_outer_one_counts():
    def fn(i, x):
        def outer(carry, y):
            plain, own = carry

            def inner(inside, _):
                return (inside[0] + total(y), inside[1] + total(y) * own), None

            plain, used = lax.scan(inner, (plain, 0.0), None, length=2)[0]
            return (plain, own + i), used

        return lax.scan(outer, (0.0, 0.0), x)

    assert compare(fn, (3,)) == [False, True, True]


def test_a_while_whose_condition_differs_cannot_have_collectives():
    def fn(i, x):
        def loop(limit):
            body = lambda c: c + total(x)  # noqa: E731
            return lax.while_loop(lambda c: c < limit, body, jnp.float32(0))

        return loop(5.0), loop(jnp.float32(limits[i]))

    limits = [1, 1]
    assert compare(fn, ()) == [False, False]
    limits = [1, 2]
    with pytest.raises(ValueError, match="must reach a collective"):
        compare(fn, ())


def test_a_branch_that_differs_inside_counts():
    def fn(i, x):
        def choose(number):
            return lax.cond(total(x) > 0, total, lambda y: y * number, x)

        return choose(1), choose(jnp.float32(i))

    assert compare(fn, ()) == [False, True]


def test_a_branch_that_is_not_taken_alike_cannot_have_collectives():
    with pytest.raises(ValueError, match="must reach a collective"):
        compare(lambda i, x: lax.cond(total(x) > i, total, lambda y: y, x), ())
