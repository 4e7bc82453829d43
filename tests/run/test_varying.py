"""What varies between replicas, found on small programs."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import buffer_callback

from mirrax._jax.jaxprs import all_equations
from mirrax.collectives.spmd import promise_mirrored
from mirrax.run.varying import find_varying, has_collective

VARYING, MIRRORED = True, False
AXIS_ENV = [("replica", 2)]


def trace(fn, *shapes):
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return jax.make_jaxpr(fn, axis_env=AXIS_ENV)(*arguments).jaxpr


def varying(fn, *inputs, shape=()):
    """Returns what varies in the results of `fn`, given which arguments do."""
    return find_varying(trace(fn, *[shape] * len(inputs)), inputs)


def total(x):
    return lax.psum(x, "replica")


@jax.custom_vjp
def own_gradient(x):
    return total(x) * 2


own_gradient.defvjp(lambda x: (own_gradient(x), x), lambda x, g: (g * x,))


@jax.custom_jvp
def own_tangent(x):
    return total(x) * 2


@own_tangent.defjvp
def _(primals, tangents):
    return own_tangent(*primals), total(*tangents) * 2


# Straight code.


def test_what_depends_on_a_varying_input_varies():
    assert varying(lambda x, y: (x + y, y), VARYING, MIRRORED) == [VARYING, MIRRORED]


def test_constants_are_mirrored():
    assert varying(lambda x: jnp.ones(3) + 1, VARYING) == [MIRRORED]


def test_an_input_that_is_returned_keeps_its_kind():
    assert varying(lambda x, y: (x, y), VARYING, MIRRORED) == [VARYING, MIRRORED]


def test_the_replicas_number_varies():
    assert varying(lambda: lax.axis_index("replica")) == [VARYING]


@pytest.mark.parametrize(
    "combine",
    [
        total,
        lambda x: lax.pmean(x, "replica"),
        lambda x: lax.pmax(x, "replica"),
        lambda x: lax.pmin(x, "replica"),
        lambda x: lax.all_gather(x, "replica"),
        promise_mirrored,
    ],
    ids=["psum", "pmean", "pmax", "pmin", "all_gather", "promise"],
)
def test_what_was_combined_is_mirrored(combine):
    assert varying(combine, VARYING) == [MIRRORED]


@pytest.mark.parametrize(
    "combine",
    [
        lambda x: lax.psum(x, "replica", axis_index_groups=[[0], [1]]),
        lambda x: lax.all_gather(x, "replica", axis_index_groups=[[0], [1]]),
        lambda x: lax.ppermute(x, "replica", [(0, 1), (1, 0)]),
        lambda x: lax.psum_scatter(x, "replica"),
        lambda x: lax.all_to_all(x, "replica", 0, 0),
    ],
    ids=["groups", "gather_groups", "ppermute", "psum_scatter", "all_to_all"],
)
def test_what_was_exchanged_in_part_varies(combine):
    assert varying(combine, MIRRORED, shape=(2,)) == [VARYING]


def test_a_sum_over_another_axis_does_not_combine():
    fn = jax.vmap(lambda x: lax.psum(x, "rows"), axis_name="rows")
    assert varying(fn, VARYING, shape=(3,)) == [VARYING]


def test_what_varies_after_a_sum_varies_again():
    assert varying(lambda x: total(x) + x, VARYING) == [VARYING]


def test_a_gradient_that_was_combined_is_mirrored():
    fn = jax.grad(lambda w, x: (w * x) ** 2)

    def step(w, x):
        return w - 0.1 * total(fn(w, x))

    assert varying(step, MIRRORED, VARYING) == [MIRRORED]


# Calls.


@pytest.mark.parametrize(
    "fn",
    [
        jax.jit(total),
        jax.checkpoint(total),
        own_gradient,
        own_tangent,
        jax.jit(jax.checkpoint(own_gradient)),
    ],
    ids=["jit", "remat", "custom_vjp", "custom_jvp", "nested"],
)
def test_a_sum_inside_a_call_is_mirrored(fn):
    assert varying(fn, VARYING) == [MIRRORED]


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint], ids=["jit", "remat"])
def test_each_result_of_a_call_is_looked_at_on_its_own(wrap):
    fn = wrap(lambda x, y: (x * 2, y * 2, x + y))
    assert varying(fn, VARYING, MIRRORED) == [VARYING, MIRRORED, VARYING]


def test_a_call_that_asks_for_the_number_varies():
    assert varying(jax.jit(lambda: lax.axis_index("replica"))) == [VARYING]


@pytest.mark.parametrize(
    "fn", [own_gradient, own_tangent], ids=["custom_vjp", "custom_jvp"]
)
def test_the_gradient_of_a_call_with_a_sum_is_looked_through(fn):
    def step(x):
        return total(jax.grad(lambda y: fn(y).sum())(x))

    assert varying(step, VARYING) == [MIRRORED]


# Conditions.


def test_a_branch_chosen_by_a_varying_condition_varies():
    def fn(p, x):
        return lax.cond(p > 0, lambda: x, lambda: -x)

    assert varying(fn, VARYING, MIRRORED) == [VARYING]


def test_a_branch_chosen_by_a_mirrored_condition_is_as_its_values():
    def fn(p, x, y):
        return lax.cond(p > 0, lambda: (x, y), lambda: (-x, -y))

    assert varying(fn, MIRRORED, VARYING, MIRRORED) == [VARYING, MIRRORED]


def test_unequal_branches_vary_if_one_of_them_does():
    def fn(p, x, y):
        return lax.cond(p > 0, lambda: x, lambda: y)

    assert varying(fn, MIRRORED, MIRRORED, VARYING) == [VARYING]


def test_switch_is_looked_at_in_all_branches():
    branches = [
        lambda x: x * 0,
        lambda x: x * 1,
        lambda x: lax.axis_index("replica") * x,
    ]

    def fn(p, x):
        return lax.switch(p.astype(int), branches, x)

    assert varying(fn, MIRRORED, MIRRORED) == [VARYING]


def test_a_sum_under_a_mirrored_condition_is_mirrored():
    def fn(p, x):
        return lax.cond(p > 0, lambda: total(x), lambda: 0.0)

    assert varying(fn, MIRRORED, VARYING) == [MIRRORED]


def test_a_condition_that_was_combined_is_mirrored():
    def fn(p, x):
        return lax.cond(total(p) > 0, lambda: total(x), lambda: 0.0)

    assert varying(fn, VARYING, VARYING) == [MIRRORED]


@pytest.mark.parametrize(
    "inner",
    [
        total,
        jax.jit(total),
        lambda x: lax.fori_loop(0, 2, lambda _, y: total(y), x),
        lambda x: lax.ppermute(x, "replica", [(0, 1), (1, 0)]),
    ],
    ids=["psum", "in_jit", "in_loop", "ppermute"],
)
def test_a_collective_under_a_varying_condition_is_refused(inner):
    def fn(p, x):
        return lax.cond(p > 0, lambda: inner(x), lambda: x)

    message = r"All replicas must reach a collective.*branch of cond or switch"
    with pytest.raises(ValueError, match=message):
        varying(fn, VARYING, MIRRORED)


def test_a_collective_under_a_varying_condition_is_refused_inside_calls():
    fn = jax.jit(lambda p, x: lax.cond(p > 0, lambda: total(x), lambda: x))
    with pytest.raises(ValueError, match="All replicas must reach a collective"):
        varying(lambda p, x: fn(p, x) * 2, VARYING, MIRRORED)


def test_a_sum_over_another_axis_is_allowed_under_a_varying_condition():
    def fn(p, x):
        return lax.cond(p > 0, lambda: x, lambda: lax.psum(x, "rows"))

    rows = jax.vmap(fn, in_axes=(None, 0), axis_name="rows")
    jaxpr = trace(rows, (), (3,))
    assert find_varying(jaxpr, [VARYING, MIRRORED]) == [VARYING]


def test_select_is_no_branch():
    def fn(p, x):
        return jnp.where(p > 0, total(x), 0.0)

    assert varying(fn, VARYING, MIRRORED) == [VARYING]


# Loops.


def test_a_scan_carries_what_varies():
    def fn(c, x):
        return lax.scan(lambda a, _: (a + x, a), c, None, length=3)

    assert varying(fn, MIRRORED, VARYING) == [VARYING, VARYING]


def test_a_scan_of_mirrored_values_is_mirrored():
    def fn(c, x):
        return lax.scan(lambda a, b: (a + b, a), c, x)

    jaxpr = trace(fn, (), (3,))
    assert find_varying(jaxpr, [MIRRORED, MIRRORED]) == [MIRRORED, MIRRORED]


def test_a_scan_over_varying_elements_varies():
    def fn(c, x):
        return lax.scan(lambda a, b: (a, a + b), c, x)

    jaxpr = trace(fn, (), (3,))
    assert find_varying(jaxpr, [MIRRORED, VARYING]) == [MIRRORED, VARYING]


def test_a_sum_in_a_scan_is_mirrored():
    def fn(c, x):
        return lax.scan(lambda a, b: (a + total(b), b), c, x)

    jaxpr = trace(fn, (), (3,))
    assert find_varying(jaxpr, [MIRRORED, VARYING]) == [MIRRORED, VARYING]


def test_a_scan_is_followed_until_nothing_changes():
    def shift(carry, _):
        a, b, c = carry
        return (a, a, b), c

    def fn(a, b, c):
        return lax.scan(shift, (a, b, c), None, length=3)

    assert varying(fn, VARYING, MIRRORED, MIRRORED) == [VARYING] * 4


def test_a_loop_with_a_fixed_count_is_mirrored():
    def fn(x):
        return lax.fori_loop(0, 3, lambda i, y: y * 2, x)

    assert varying(fn, MIRRORED) == [MIRRORED]


def test_a_loop_that_ends_differently_varies_in_all_it_carries():
    def fn(limit, x, y):
        return lax.while_loop(
            lambda c: c[0] < limit, lambda c: (c[0] + 1, c[1] * 2), (x, y)
        )

    assert varying(fn, VARYING, MIRRORED, MIRRORED) == [VARYING, VARYING]


def test_a_loop_whose_condition_comes_to_vary_varies():
    def fn(x, y):
        return lax.while_loop(
            lambda c: c[0] < 9, lambda c: (c[0] + c[1], c[1], c[2] + 1), (x, y, x)
        )

    assert varying(fn, MIRRORED, VARYING) == [VARYING] * 3


def test_a_loop_with_a_mirrored_condition_is_looked_at_by_value():
    def fn(x, y):
        return lax.while_loop(
            lambda c: c[0] < 9, lambda c: (c[0] + total(c[1]), c[1]), (x, y)
        )

    assert varying(fn, MIRRORED, VARYING) == [MIRRORED, VARYING]


@pytest.mark.parametrize(
    ("cond", "body", "place"),
    [
        (lambda x: x < 9, total, "the body"),
        (lambda x: x + total(x) < 9, lambda x: x + 1, "the condition"),
    ],
    ids=["body", "condition"],
)
def test_a_collective_in_a_loop_that_ends_differently_is_refused(cond, body, place):
    def fn(limit, x):
        return lax.while_loop(lambda c: cond(c) & (c < limit), body, x)

    message = f"All replicas must reach a collective.*{place} of while_loop"
    with pytest.raises(ValueError, match=message):
        varying(fn, VARYING, MIRRORED)


def test_a_collective_in_a_loop_inside_a_varying_loop_is_refused():
    def fn(limit, x):
        inner = functools.partial(lax.fori_loop, 0, 2, lambda _, y: total(y))
        return lax.while_loop(lambda c: c < limit, inner, x)

    with pytest.raises(ValueError, match="All replicas must reach a collective"):
        varying(fn, VARYING, MIRRORED)


def test_a_loop_inside_a_loop_is_followed():
    def fn(x, y):
        def body(carry, _):
            inner = lax.fori_loop(0, 2, lambda i, z: z + y, carry)
            return inner, total(inner)

        return lax.scan(body, x, None, length=2)

    assert varying(fn, MIRRORED, VARYING) == [VARYING, MIRRORED]


# Callbacks and the rest.


@pytest.mark.parametrize(
    "call",
    [
        lambda shape, x: jax.pure_callback(lambda y: y, shape, x),
        lambda shape, x: jax.experimental.io_callback(lambda y: y, shape, x),
        lambda shape, x: buffer_callback.buffer_callback(print, shape)(x),
        lambda shape, x: jax.vmap(
            lambda y: jax.pure_callback(lambda z: z, shape, y, vmap_method="sequential")
        )(x[None])[0],
    ],
    ids=["pure", "with_effects", "of_buffers", "in_a_loop"],
)
def test_what_a_callback_returns_varies(call):
    shape = jax.ShapeDtypeStruct((), "float32")
    assert varying(lambda x: call(shape, x), MIRRORED) == [VARYING]


def test_random_numbers_from_a_shared_key_are_mirrored():
    def fn():
        return jax.random.normal(jax.random.key(0), (2,))

    assert varying(fn) == [MIRRORED]


def test_random_numbers_from_a_replicas_key_vary():
    def fn():
        key = jax.random.fold_in(jax.random.key(0), lax.axis_index("replica"))
        return jax.random.normal(key, (2,))

    assert varying(fn) == [VARYING]


def test_a_sort_and_a_reduction_are_as_their_inputs():
    def fn(x):
        return (jnp.sort(x), x.sum(), jnp.linalg.norm(x))

    assert varying(fn, MIRRORED, shape=(4,)) == [MIRRORED] * 3
    assert varying(fn, VARYING, shape=(4,)) == [VARYING] * 3


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (total, True),
        (jax.jit(total), True),
        (lambda x: lax.scan(lambda c, _: (total(c), None), x, None, length=2), True),
        (lambda x: lax.cond(x > 0, total, lambda y: y, x), True),
        (lambda x: lax.axis_index("replica") + x, False),
        (lambda x: x + 1, False),
    ],
    ids=["psum", "jit", "scan", "cond", "axis_index", "none"],
)
def test_collectives_are_found_at_any_depth(fn, expected):
    assert has_collective(trace(fn, ())) == expected


def test_all_equations_are_found_at_any_depth():
    def fn(x):
        return lax.cond(x > 0, jax.jit(jnp.sin), jnp.cos, x)

    names = [equation.primitive.name for equation in all_equations(trace(fn, ()))]
    assert {"gt", "cond", "sin", "cos"} <= set(names)


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit], ids=["plain", "in_a_call"])
def test_numbers_that_a_device_draws_by_itself_vary(wrap):
    draw = wrap(lambda: lax.rng_uniform(0.0, 1.0, (2,)))
    assert varying(lambda x: (x, draw()), MIRRORED) == [MIRRORED, VARYING]


# References.


def test_a_reference_varies_once_something_varying_was_written():
    def fn(x, y):
        first, second = jax.new_ref(y), jax.new_ref(y)
        before = first[...]
        first[...] = x
        second[...] = total(x)
        return before, first[...], second[...]

    assert varying(fn, VARYING, MIRRORED) == [MIRRORED, VARYING, MIRRORED]


def test_a_reference_that_a_loop_writes_varies_with_what_the_loop_is_given():
    def fn(x, y):
        reference = jax.new_ref(y)

        def body(_, row):
            seen = reference[...]
            reference[...] = row
            return None, seen

        return lax.scan(body, None, jnp.stack([x, x]))[1], reference[...]

    assert varying(fn, VARYING, MIRRORED) == [VARYING, VARYING]
    assert varying(fn, MIRRORED, MIRRORED) == [MIRRORED, MIRRORED]


def test_a_reference_that_a_branch_writes_varies_with_the_condition():
    def fn(x, y):
        reference = jax.new_ref(y)

        def write():
            reference[...] = y + 1

        lax.cond(x > 0, write, lambda: None)
        return reference[...]

    assert varying(fn, VARYING, MIRRORED) == [VARYING]


def test_a_reference_to_the_number_of_the_replica_varies():
    def fn(y):
        reference = jax.new_ref(y)

        def write(_, __):
            reference[...] += lax.axis_index("replica")
            return None, None

        lax.scan(write, None, None, length=2)
        return reference[...]

    assert varying(fn, MIRRORED) == [VARYING]
