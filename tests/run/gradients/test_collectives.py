"""Derivatives of collectives: the same numbers in both engines, worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from tests.programs import engines
from tests.programs import part_arrays as parts

FLOATS = ["float16", "bfloat16", "float32", "complex64"]
INTEGERS = ["int8", "uint8", "int32", "uint32"]


def context():
    return mirrax.get_replica_context()


def own_number():
    """1.0 on the first replica, 2.0 on the second, and so on."""
    return jnp.float32(context().replica_id_in_sync_group + 1)


# loss_i = (i + 1) * (x_0 + x_1)**2, so d(sum of losses)/dx_i = 3 * 2 * (x_0 + x_1).


@engines
def test_the_gradient_of_a_sum_is_the_sum_of_the_gradients(two_replicas, engine):
    def step():
        def loss(x):
            return own_number() * context().all_reduce("SUM", x) ** 2

        return jax.grad(loss)(own_number())

    assert parts(two_replicas, two_replicas.run(engine(step))) == [18, 18]


@engines
def test_the_gradient_of_a_mean_is_the_mean_of_the_gradients(two_replicas, engine):
    def step():
        def loss(x):
            return own_number() * context().all_reduce("MEAN", x) ** 2

        return jax.grad(loss)(own_number())

    # 3 * 2 * 1.5 for the mean, divided by 2 replicas.
    assert parts(two_replicas, two_replicas.run(engine(step))) == [4.5, 4.5]


@engines
def test_the_gradient_of_a_gather_is_the_replicas_own_slice(two_replicas, engine):
    def step():
        def loss(x):
            weights = jnp.array([1.0, 10.0, 100.0, 1000.0])
            return own_number() * (weights * context().all_gather(x, axis=0)).sum()

        return jax.grad(loss)(jnp.zeros(2))

    np.testing.assert_array_equal(
        parts(two_replicas, two_replicas.run(engine(step))), [[3, 30], [300, 3000]]
    )


@engines
def test_a_gather_is_differentiated_along_any_axis(two_replicas, engine):
    def step():
        def loss(x):
            return (context().all_gather(x, axis=-1) * jnp.arange(4.0)).sum()

        return jax.grad(loss)(jnp.zeros((3, 2)))

    left, right = parts(two_replicas, two_replicas.run(engine(step)))
    np.testing.assert_array_equal(left, [[0, 2]] * 3)
    np.testing.assert_array_equal(right, [[4, 6]] * 3)


def test_a_gather_of_unequal_parts_is_differentiated(two_replicas):
    def step():
        size = context().replica_id_in_sync_group + 1

        def loss(x):
            return (context().all_gather(x, axis=0) * jnp.arange(1.0, 4.0)).sum()

        return jax.grad(loss)(jnp.zeros(size))

    left, right = two_replicas.run(step).values
    np.testing.assert_array_equal(left, [2])
    np.testing.assert_array_equal(right, [4, 6])


@engines
def test_structures_are_differentiated(two_replicas, engine):
    def step():
        def loss(tree):
            total = context().all_reduce("SUM", tree)
            return total["x"] * total["y"][0].sum()

        return jax.grad(loss)({"x": own_number(), "y": (2 * jnp.ones(3),)})

    gradients = two_replicas.run(engine(step))
    # Both replicas have the loss x * y: x = 1 + 2 and y = 2 * 3 * 2.
    assert parts(two_replicas, gradients["x"]) == [24, 24]
    np.testing.assert_array_equal(parts(two_replicas, gradients["y"][0]), [[6] * 3] * 2)


@engines
def test_a_collective_of_a_constant_is_allowed_inside_grad(two_replicas, engine):
    def step():
        def loss(x):
            return x**2 / context().all_reduce("SUM", jnp.float32(2))

        return jax.grad(loss)(own_number())

    assert parts(two_replicas, two_replicas.run(engine(step))) == [0.5, 1]


@engines
def test_integers_beside_floats_are_allowed_inside_grad(two_replicas, engine):
    def step():
        def loss(x):
            total = context().all_reduce("SUM", {"loss": x**2, "count": jnp.int32(2)})
            return total["loss"] * total["count"]

        return jax.grad(loss)(own_number())

    assert parts(two_replicas, two_replicas.run(engine(step))) == [16, 32]


@engines
@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_integers_beside_floats_are_gathered_inside_grad(two_replicas, engine, dtype):
    def step():
        def loss(x):
            values, flags = context().all_gather([x, jnp.arange(2).astype(dtype)], 0)
            return (values**2 * flags).sum()

        return jax.grad(loss)(jnp.ones(2))

    # Two losses, in which every second value counts.
    result = two_replicas.run(engine(step))
    np.testing.assert_array_equal(parts(two_replicas, result), [[0, 4], [0, 4]])


@engines
def test_a_mean_of_integers_beside_floats_is_a_constant_inside_grad(
    two_replicas, engine
):
    def step():
        def loss(x):
            count = context().replica_id_in_sync_group * jnp.int32(3)
            mean, scale = context().all_reduce("MEAN", [x, count])
            return mean * scale

        return jax.grad(loss)(own_number())

    assert parts(two_replicas, two_replicas.run(engine(step))) == [1.5, 1.5]


@engines
def test_an_output_that_is_not_used_has_no_gradient(two_replicas, engine):
    def step():
        def loss(x, y):
            return context().all_reduce("SUM", [x, y])[0]

        return jax.grad(loss, argnums=(0, 1))(own_number(), own_number())

    used, unused = two_replicas.run(engine(step))
    assert parts(two_replicas, used) == [2, 2]
    assert parts(two_replicas, unused)[0] == 0


@engines
def test_two_collectives_in_a_row_are_differentiated(four_replicas, engine):
    def step():
        def loss(x):
            return context().all_reduce("MEAN", context().all_reduce("SUM", x) ** 2)

        return jax.grad(loss)(own_number())

    # Each replica's x is in the sum 10, which is in all four terms of the mean.
    assert parts(four_replicas, four_replicas.run(engine(step)))[0] == 4 * 2 * 10


@engines
def test_the_value_comes_with_the_gradient(two_replicas, engine):
    def step():
        return jax.value_and_grad(lambda x: context().all_reduce("SUM", x * x))(
            own_number()
        )

    value, gradient = two_replicas.run(engine(step))
    assert parts(two_replicas, value)[0] == 5
    assert parts(two_replicas, gradient) == [4, 8]


def test_merge_call_is_differentiated_in_compiled_code(two_replicas):
    def step():
        def loss(x):
            reduced = context().merge_call(
                lambda strategy, y: strategy.reduce("SUM", y, axis=None), args=(x,)
            )
            return own_number() * reduced**2

        return jax.grad(loss)(own_number())

    result = two_replicas.run(mirrax.function(step))
    assert parts(two_replicas, result) == [18, 18]


@engines
def test_gradients_of_variables_go_through_collectives(two_replicas, engine):
    with two_replicas.scope():
        weight = mirrax.Variable(3.0)

    def step():
        def loss(x):
            return context().all_reduce("SUM", weight * x) ** 2

        return mirrax.value_and_grad(loss, weight)(own_number())

    value, gradient = two_replicas.run(engine(step))
    assert parts(two_replicas, value)[0] == 81
    # Two equal losses (3 + 6)**2, differentiated by each replica's use of the weight.
    assert parts(two_replicas, gradient) == [36, 72]


# Second derivatives: loss_i = (i + 1) * (x_0**2 + x_1**2)**2 / 4, so its slope, added
# up over the replicas, is 3 * s * x_i for s = x_0**2 + x_1**2, which is 5. The sum of
# both slopes, differentiated again by x_i, is 3 * (s + 2 * x_i * (x_0 + x_1)).


def quarter_of_square(x):
    return own_number() * context().all_reduce("SUM", x * x) ** 2 / 4


@engines
def test_a_sum_is_differentiated_twice(two_replicas, engine):
    def step():
        return jax.grad(jax.grad(quarter_of_square))(own_number())

    assert parts(two_replicas, two_replicas.run(engine(step))) == [33, 51]


@engines
def test_a_gather_is_differentiated_twice(two_replicas, engine):
    def step():
        def loss(x):
            return own_number() * (context().all_gather(x, axis=0) ** 3).sum()

        return jax.grad(lambda x: jax.grad(loss)(x).sum())(jnp.ones(2) * own_number())

    # Both losses, 3 in all, times the second derivative of x**3.
    np.testing.assert_array_equal(
        parts(two_replicas, two_replicas.run(engine(step))), [[18, 18], [36, 36]]
    )


@engines
def test_value_and_grad_differentiates_a_sum_twice(two_replicas, engine):
    with two_replicas.scope():
        weight = mirrax.Variable(1.0)

    def step():
        def slope():
            loss = mirrax.value_and_grad(
                lambda: quarter_of_square(weight * own_number()), weight
            )
            return loss()[1]

        return mirrax.value_and_grad(slope, weight)()

    # With x_i = (i + 1) * w_i the slopes by w_i are (i + 1) times those by x_i.
    slope, second = two_replicas.run(engine(step))
    assert parts(two_replicas, slope) == [15, 60]
    assert parts(two_replicas, second) == [45, 180]


@engines
def test_a_tape_in_a_tape_differentiates_a_sum_twice(two_replicas, engine):
    with two_replicas.scope():
        weight = mirrax.Variable(1.0)

    def step():
        with mirrax.GradientTape() as outer:
            with mirrax.GradientTape() as inner:
                loss = quarter_of_square(weight * own_number())
            slope = inner.gradient(loss, weight)
        return slope, outer.gradient(slope, weight)

    slope, second = two_replicas.run(engine(step))
    assert parts(two_replicas, slope) == [15, 60]
    assert parts(two_replicas, second) == [45, 180]


@engines
def test_a_tape_around_a_derivative_follows_what_is_constant_inside(
    two_replicas, engine
):
    with two_replicas.scope():
        weight = mirrax.Variable(3.0)

    def step():
        with mirrax.GradientTape() as tape:
            slope = jax.grad(lambda x: x * context().all_reduce("SUM", weight * 2.0))(
                own_number()
            )
        return tape.gradient(slope, weight)

    assert parts(two_replicas, two_replicas.run(engine(step))) == [4, 4]


# Forward mode: x_i is i + 1, and its tangent too, so that of x_0**2 + x_1**2 is 10.


def sum_of_squares(x):
    return context().all_reduce("SUM", x * x)


@engines
@pytest.mark.parametrize(("op", "value"), [("SUM", 5), ("MEAN", 2.5)])
def test_a_reduction_has_a_forward_derivative(two_replicas, engine, op, value):
    def step():
        own = own_number()
        return jax.jvp(lambda x: context().all_reduce(op, x * x), (own,), (own,))

    found, tangent = two_replicas.run(engine(step))
    assert parts(two_replicas, found) == [value] * 2
    assert parts(two_replicas, tangent) == [2 * value] * 2


@engines
def test_a_gather_has_a_forward_derivative(two_replicas, engine):
    def step():
        own = jnp.full((2, 1), own_number())
        return jax.jvp(lambda x: context().all_gather(x * x, axis=-1), (own,), (own,))

    found, tangent = two_replicas.run(engine(step))
    np.testing.assert_array_equal(parts(two_replicas, found)[0], [[1, 4]] * 2)
    np.testing.assert_array_equal(parts(two_replicas, tangent)[0], [[2, 8]] * 2)


def test_a_gather_of_unequal_parts_has_a_forward_derivative(two_replicas):
    def step():
        own = jnp.full(context().replica_id_in_sync_group + 1, own_number())
        return jax.jvp(lambda x: context().all_gather(x * x, axis=0), (own,), (own,))

    _, tangent = two_replicas.run(step)
    np.testing.assert_array_equal(parts(two_replicas, tangent)[0], [2, 8, 8])


@engines
def test_integers_beside_floats_have_no_forward_derivative(two_replicas, engine):
    def step():
        def total(x):
            sums = context().all_reduce("SUM", {"x": x * x, "count": jnp.int32(2)})
            return sums["x"] * sums["count"]

        return jax.jvp(total, (own_number(),), (own_number(),))[1]

    assert parts(two_replicas, two_replicas.run(engine(step))) == [40, 40]


@engines
def test_a_linearized_sum_can_be_called_repeatedly(two_replicas, engine):
    def step():
        _, linear = jax.linearize(sum_of_squares, own_number())
        return linear(own_number()), linear(2 * own_number())

    once, twice = two_replicas.run(engine(step))
    assert parts(two_replicas, once) == [10, 10]
    assert parts(two_replicas, twice) == [20, 20]


# With n * s**2 for the loss, where s is 5 and its tangent 10, the slope by x is
# 3 * 4 * s * x, whose tangent is 3 * 4 * (10 * x + s * x); and the tangent of the loss
# is n * 2 * s * 10.


@engines
@pytest.mark.parametrize("order", ["forward of reverse", "reverse of forward"])
def test_forward_and_reverse_derivatives_can_be_mixed(two_replicas, engine, order):
    def loss(x):
        return own_number() * sum_of_squares(x) ** 2

    def tangent(fn, x):
        return jax.jvp(fn, (x,), (own_number(),))[1]

    def step():
        if order == "forward of reverse":
            return tangent(jax.grad(loss), own_number())
        return jax.grad(lambda x: tangent(loss, x))(own_number())

    assert parts(two_replicas, two_replicas.run(engine(step))) == [180, 360]


@engines
def test_a_forward_derivative_of_a_forward_derivative_is_right(two_replicas, engine):
    def step():
        def tangent(x):
            return jax.jvp(lambda y: sum_of_squares(y) ** 2, (x,), (own_number(),))[1]

        return jax.jvp(tangent, (own_number(),), (own_number(),))

    # 2 * s * s' is 100; 2 * (s' * s' + s * s''), where s'' is 10, is 300.
    first, second = two_replicas.run(engine(step))
    assert parts(two_replicas, first) == [100, 100]
    assert parts(two_replicas, second) == [300, 300]


@engines
def test_a_sum_is_differentiated_three_times(two_replicas, engine):
    def step():
        third = jax.grad(jax.grad(jax.grad(quarter_of_square)))
        return third(own_number())

    # Both second ones are 3 * (2 * s + 2 * (x_0 + x_1)**2), so 12 * (x_i + x_0 + x_1).
    assert parts(two_replicas, two_replicas.run(engine(step))) == [48, 60]


@engines
def test_a_tape_records_a_forward_derivative(two_replicas, engine):
    with two_replicas.scope():
        weight = mirrax.Variable(3.0)

    def step():
        with mirrax.GradientTape() as tape:
            _, tangent = jax.jvp(
                lambda x: sum_of_squares(x * weight), (own_number(),), (own_number(),)
            )
        return tape.gradient(tangent, weight)

    # Each of two tangents has 2 * (w * x_i)**2, whose slope is 4 * w * x_i**2.
    assert parts(two_replicas, two_replicas.run(engine(step))) == [24, 96]


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap], ids=["jit", "vmap"])
def test_a_derivative_in_which_replicas_cannot_meet_is_refused(two_replicas, transform):
    def step():
        _, linear = jax.linearize(sum_of_squares, jnp.ones(2))
        return transform(linear)(jnp.ones((2, 2) if transform is jax.vmap else 2))

    with pytest.raises(RuntimeError, match=r"is itself a collective.*mirrax\.function"):
        two_replicas.run(step)


@pytest.mark.parametrize(
    "transform",
    [jax.jit, lambda f: jax.jit(jax.grad(f)), jax.checkpoint, lambda f: f],
    ids=["jit", "jit_of_grad", "checkpoint", "vmap_alone"],
)
def test_transformations_in_which_replicas_cannot_meet_are_refused(
    two_replicas, transform
):
    def step():
        def one(x):
            return context().all_reduce("SUM", x)

        return jax.vmap(transform(one))(jnp.ones(2))

    with pytest.raises(RuntimeError, match=r"`all_reduce` is called inside a JAX"):
        two_replicas.run(step)


# Dtypes.


def of_each_dtype(dtypes, value):
    return {dtype: value.astype(dtype) for dtype in dtypes}


def require_dtypes(strategy, results, expected, dtype=None):
    for name, result in results.items():
        first = parts(strategy, result)[0]
        assert first.tolist() == expected, name
        assert str(first.dtype) == (dtype or name)


@engines
def test_a_sum_and_its_gradient_keep_floating_dtypes(two_replicas, engine):
    def step():
        def loss(values):
            sums = context().all_reduce("SUM", values)
            return sum(jnp.real(x).astype("float32") for x in sums.values())

        values = of_each_dtype(FLOATS, own_number())
        return context().all_reduce("SUM", values), jax.grad(loss)(values)

    sums, gradients = two_replicas.run(engine(step))
    require_dtypes(two_replicas, sums, 3)
    require_dtypes(two_replicas, gradients, 2)


@engines
def test_a_sum_keeps_integer_dtypes_and_a_mean_is_a_float(two_replicas, engine):
    def step():
        values = of_each_dtype(INTEGERS, own_number())
        return context().all_reduce("SUM", values), context().all_reduce("MEAN", values)

    sums, means = two_replicas.run(engine(step))
    require_dtypes(two_replicas, sums, 3)
    require_dtypes(two_replicas, means, 1.5, "float32")


@engines
def test_a_sum_of_booleans_counts(two_replicas, engine):
    def step():
        return context().all_reduce("SUM", own_number() > jnp.array([0.0, 1.0]))

    (first, *_) = parts(two_replicas, two_replicas.run(engine(step)))
    np.testing.assert_array_equal(first, [2, 1])
    assert first.dtype == np.int32


@engines
def test_a_gather_keeps_every_dtype(two_replicas, engine):
    def step():
        own = jnp.atleast_1d(own_number() - 1)
        own = of_each_dtype([*FLOATS, *INTEGERS, "bool"], own)
        return context().all_gather(own, axis=0)

    require_dtypes(two_replicas, two_replicas.run(engine(step)), [0, 1])


def test_an_eager_tape_reaches_through_all_gather(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(1.0)

    def step():
        x = jnp.array([1.0, 1.0])
        with mirrax.GradientTape() as tape:
            gathered = mirrax.get_replica_context().all_gather(variable * x, axis=0)
            loss = jnp.sum(gathered**2)
        return tape.gradient(loss, variable)

    eager, compiled = (
        two_replicas.experimental_local_results(two_replicas.run(how(step)))
        for how in (lambda fn: fn, mirrax.function)
    )
    assert [float(g) for g in eager] == [float(g) for g in compiled]
