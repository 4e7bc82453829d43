"""Writes inside `value_and_grad`: eager replicas get what compiled ones get."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import VariableAggregation, VariableSynchronization
from mirrax.errors import ReplicaError
from tests.programs import create, engines, mirrored, parts, replica_id

FIRST = VariableAggregation.ONLY_FIRST_REPLICA
MEAN = VariableAggregation.MEAN
NONE = VariableAggregation.NONE
SUM = VariableAggregation.SUM


def own_number():
    """1.0 on the first replica, 2.0 on the second."""
    return jnp.float32(replica_id() + 1)


def copies(variable):
    return [part.numpy() for part in variable.values]


@engines
def test_read_after_a_write_sees_what_was_written(strategy, engine):
    v = create(strategy, 1.0)

    def loss():
        v.assign_add(1.0)
        return v.value**2

    value, gradient = strategy.run(engine(mirrax.value_and_grad(loss, v)))
    assert parts(strategy, value)[0] == 4
    assert parts(strategy, gradient)[0] == 4
    assert v.numpy() == 2


@engines
@pytest.mark.parametrize(
    ("aggregation", "change", "new"),
    [
        (NONE, "assign", 5),
        (NONE, "assign_add", 6),
        (NONE, "assign_sub", -4),
        (SUM, "assign", 10),
        (SUM, "assign_add", 11),
        (SUM, "assign_sub", -9),
        (MEAN, "assign_add", 6),
        (FIRST, "assign_add", 6),
    ],
)
def test_constant_is_written_as_the_aggregation_says(
    two_replicas, engine, aggregation, change, new
):
    v = create(two_replicas, 1.0, aggregation=aggregation)

    def loss():
        getattr(v, change)(5.0)
        return v.value * 1.0

    value, _ = two_replicas.run(engine(mirrax.value_and_grad(loss, v)))
    assert parts(two_replicas, value) == [new, new]
    assert copies(v) == [new, new]


# loss = w * new**2, so each replica's slope by `new` is 2 * w * new. For a sum, those
# of both replicas come back, times the replica's own number.


@engines
@pytest.mark.parametrize(
    ("aggregation", "new", "slopes"),
    [(SUM, 3, [36, 72]), (MEAN, 1.5, [9, 18]), (FIRST, 1, [12, 0])],
    ids=["sum", "mean", "first"],
)
def test_gradient_reaches_through_what_replicas_write(
    two_replicas, engine, aggregation, new, slopes
):
    v = create(two_replicas, 1.0, aggregation=aggregation)
    w = create(two_replicas, 3.0)

    def loss():
        v.assign(v.value * own_number())
        return w.value * v.value**2

    step = engine(mirrax.value_and_grad(loss, [v, w]))
    value, (by_v, by_w) = two_replicas.run(step)
    assert copies(v) == [new, new]
    assert parts(two_replicas, value) == [3 * new**2] * 2
    assert parts(two_replicas, by_v) == slopes
    assert parts(two_replicas, by_w) == [new**2] * 2


@engines
def test_equal_write_without_aggregation_is_differentiated(two_replicas, engine):
    v = create(two_replicas, 1.0)

    def loss():
        v.assign(v.value * 3)
        return own_number() * v.value**2

    _, gradient = two_replicas.run(engine(mirrax.value_and_grad(loss, v)))
    assert parts(two_replicas, gradient) == [18, 36]
    assert copies(v) == [3, 3]


@engines
def test_unequal_write_without_aggregation_is_refused(two_replicas, engine):
    v = create(two_replicas, 1.0, name="mine")

    def loss():
        v.assign(v.value * own_number())
        return v.value * 1.0

    with pytest.raises(ValueError, match=r"'mine:0'.* the\s+same value"):
        two_replicas.run(engine(mirrax.value_and_grad(loss, v)))
    assert copies(v) == [1, 1]


@engines
@pytest.mark.parametrize("aggregation", [NONE, SUM, MEAN, FIRST], ids=str)
def test_sync_on_read_variable_is_each_replicas_own(two_replicas, engine, aggregation):
    v = create(
        two_replicas,
        1.0,
        aggregation=aggregation,
        synchronization=VariableSynchronization.ON_READ,
    )

    def loss():
        v.assign(v.value * own_number())
        return v.value**2

    _, gradient = two_replicas.run(engine(mirrax.value_and_grad(loss, v)))
    assert parts(two_replicas, gradient) == [2, 8]
    assert copies(v) == [1, 2]


@engines
def test_statistics_that_are_not_differentiated_get_their_mean(two_replicas, engine):
    weight = create(two_replicas, [1.0, 2.0])
    mean = create(two_replicas, [0.0, 0.0], trainable=False, aggregation=MEAN)
    count = create(two_replicas, 0, trainable=False)

    def loss():
        outputs = weight.value * own_number()
        mean.assign(0.5 * mean.value + 0.5 * outputs)
        count.assign_add(1)
        return jnp.sum(outputs), mean.value * count.value

    step = mirrax.value_and_grad(loss, weight, has_aux=True)
    (_, seen), gradient = two_replicas.run(engine(step))
    assert parts(two_replicas, gradient) == [[1, 1], [2, 2]]
    assert parts(two_replicas, seen) == [[0.75, 1.5]] * 2
    assert mean.numpy().tolist() == [0.75, 1.5]
    assert count.numpy() == 1


# With V = v_0 + v_1 + 1 = 3 for the first sum: both squares V**2 have the slope
# 2 * 2 * V by each v, and the second sum is V again. So each replica's value is
# 4 * V**2, and that of both has the slope 2 * 8 * V.


@engines
def test_writes_in_nested_derivatives_reach_the_outer_one(two_replicas, engine):
    v = create(two_replicas, 1.0, aggregation=SUM)

    def square():
        v.assign(v.value + 0.5)
        return v.value**2

    def outer():
        _, slope = mirrax.value_and_grad(square, v)()
        v.assign(v.value * 0.5)
        return slope * v.value

    value, gradient = two_replicas.run(engine(mirrax.value_and_grad(outer, v)))
    assert copies(v) == [3, 3]
    assert parts(two_replicas, value) == [36, 36]
    assert parts(two_replicas, gradient) == [48, 48]


@engines
def test_tape_inside_a_derivative_sees_and_hands_on_writes(two_replicas, engine):
    v = create(two_replicas, 1.0, aggregation=SUM)

    def loss():
        with mirrax.GradientTape() as tape:
            v.assign_add(1.0)
            y = v.value**3
        return tape.gradient(y, v) + v.value

    value, gradient = two_replicas.run(engine(mirrax.value_and_grad(loss, v)))
    assert parts(two_replicas, value) == [30, 30]
    assert parts(two_replicas, gradient) == [19, 19]
    assert copies(v) == [3, 3]


@engines
def test_tape_around_a_derivative_aggregates_its_writes_once(two_replicas, engine):
    v = create(two_replicas, 1.0, aggregation=SUM)

    def loss():
        v.assign_add(1.0)
        return v.value**2

    def step():
        with mirrax.GradientTape() as tape:
            v.assign_add(1.0)
            value, _ = mirrax.value_and_grad(loss, v)()
            after = v.value * 10
        return value, after, tape.gradient(after, v)

    value, after, gradient = two_replicas.run(engine(step))
    assert parts(two_replicas, value) == [25, 25]
    assert parts(two_replicas, after) == [50, 50]
    assert parts(two_replicas, gradient) == [10, 10]
    assert copies(v) == [5, 5]


@engines
def test_write_returns_the_new_value(two_replicas, engine):
    v = create(two_replicas, 1.0, aggregation=SUM)
    step = engine(mirrax.value_and_grad(lambda: v.assign_add(v.value) * 2.0, v))
    value, gradient = two_replicas.run(step)
    assert parts(two_replicas, value) == [6, 6]
    # The old value, and both replicas' sums.
    assert parts(two_replicas, gradient) == [6, 6]


@engines
def test_jitted_function_reads_what_was_written(two_replicas, engine):
    v = create(two_replicas, 1.0)
    square = jax.jit(lambda: v.value**2)

    def loss():
        before = square()
        v.assign_add(1.0)
        return before + 10 * square()

    value, gradient = two_replicas.run(engine(mirrax.value_and_grad(loss, v)))
    assert parts(two_replicas, value) == [41, 41]
    assert parts(two_replicas, gradient) == [42, 42]


@engines
@pytest.mark.parametrize("aggregation", [NONE, SUM, MEAN, FIRST], ids=str)
def test_central_variable_is_written_alike(engine, aggregation):
    strategy = mirrax.CentralStorageStrategy(["CPU:0", "CPU:1"])
    v = create(strategy, 1.0, aggregation=aggregation)

    def loss():
        v.assign_add(1.0)
        return v.value**2

    value, _ = strategy.run(engine(mirrax.value_and_grad(loss, v)))
    new = 3 if aggregation is SUM else 2
    assert parts(strategy, value) == [new**2] * 2
    assert v.numpy() == new


def test_error_in_an_eager_loss_leaves_variables_as_they_were(two_replicas):
    v = create(two_replicas, 1.0)

    def loss():
        v.assign_add(1.0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(mirrax.value_and_grad(loss, v))
    assert copies(v) == [1, 1]


def test_replicas_that_write_to_different_variables_are_refused(two_replicas):
    one = create(two_replicas, 1.0, aggregation=SUM)
    other = create(two_replicas, 1.0, aggregation=SUM)

    def loss():
        (one if replica_id() == 0 else other).assign_add(1.0)
        return one.value * 1.0

    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(mirrax.value_and_grad(loss, one))


@pytest.mark.parametrize(
    "write",
    [
        lambda v: jax.grad(lambda x: [v.assign_add(1.0), x][1])(1.0),
        lambda v: jax.lax.map(lambda x: [v.assign_add(1.0), x][1], jnp.ones(2)).sum(),
    ],
    ids=["grad", "map"],
)
def test_write_in_a_transformation_inside_is_refused_by_name(two_replicas, write):
    v = create(two_replicas, 1.0, name="mine", aggregation=SUM)
    with pytest.raises(RuntimeError, match=r"'mine:0' was assigned inside a JAX"):
        two_replicas.run(mirrax.value_and_grad(lambda: write(v), v))


@pytest.mark.parametrize("has_tape", [False, True], ids=["alone", "in_tape"])
def test_derivative_inside_a_transformation_refuses_writes_by_name(has_tape):
    strategy = mirrored(2)
    v = create(strategy, 1.0, name="mine")

    def loss():
        v.assign_add(1.0)
        return v.value * 1.0

    def step():
        inner = mirrax.value_and_grad(loss, v)
        if not has_tape:
            return jax.grad(lambda x: x * inner()[0])(1.0)
        with mirrax.GradientTape():
            return jax.grad(lambda x: x * inner()[0])(1.0)

    with pytest.raises(RuntimeError, match=r"'mine:0' was assigned inside a JAX"):
        strategy.run(step)
    assert copies(v) == [1, 1]
