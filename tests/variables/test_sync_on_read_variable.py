"""Variables that each replica changes for itself, and that reading combines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import VariableAggregation, VariableSynchronization
from tests.programs import create, engines, mirrored, parts, per_replica, replica_id

NONE = VariableAggregation.NONE
SUM = VariableAggregation.SUM
MEAN = VariableAggregation.MEAN
FIRST = VariableAggregation.ONLY_FIRST_REPLICA
COMBINING = pytest.mark.parametrize(
    "aggregation", [SUM, MEAN, FIRST], ids=["sum", "mean", "first"]
)


def create_on_read(strategy, initial_value, aggregation):
    return create(
        strategy,
        initial_value,
        synchronization=VariableSynchronization.ON_READ,
        aggregation=aggregation,
    )


def own_value():
    """Returns 1 on replica 0, 2 on replica 1, and so on."""
    return jnp.float32(replica_id()) + 1


def test_repr_lists_the_copies(two_replicas):
    v = create_on_read(two_replicas, 1.0, SUM)
    two_replicas.run(lambda: v.assign(own_value()))
    assert repr(v) == (
        "SyncOnReadVariable:{\n"
        "  0: <mirrax.Variable 'Variable:0' shape=() dtype=float32, numpy=1.0>,\n"
        "  1: <mirrax.Variable 'Variable/replica_1:0' "
        "shape=() dtype=float32, numpy=2.0>\n"
        "}"
    )


# In replica context.


@engines
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("assign", [1.0, 2.0]),
        ("assign_add", [11.0, 12.0]),
        ("assign_sub", [9.0, 8.0]),
    ],
    ids=["assign", "assign_add", "assign_sub"],
)
@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_each_replica_changes_its_own_copy(
    two_replicas, engine, method, expected, aggregation
):
    v = create_on_read(two_replicas, 10.0, aggregation)
    two_replicas.run(engine(lambda: getattr(v, method)(own_value())))
    assert parts(two_replicas, v) == expected


@engines
@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_each_replica_reads_its_own_copy(two_replicas, engine, aggregation):
    v = create_on_read(two_replicas, [1.0, 2.0], aggregation)

    def step():
        returned = v.assign_add(own_value() * jnp.ones(2))
        return returned + 0, v.value + 0

    returned, read = two_replicas.run(engine(step))
    assert parts(two_replicas, returned) == [[2.0, 3.0], [3.0, 4.0]]
    assert parts(two_replicas, read) == [[2.0, 3.0], [3.0, 4.0]]


@engines
def test_changes_add_up_over_steps(strategy, engine):
    count = strategy.num_replicas_in_sync
    v = create_on_read(strategy, 0.0, SUM)
    step = engine(lambda: v.assign_add(own_value()))
    strategy.run(step)
    strategy.run(step)
    assert v.numpy() == count * (count + 1)


def test_both_engines_change_the_same_copies(two_replicas):
    v = create_on_read(two_replicas, [0.0, 0.0], SUM)

    def step():
        v.assign_add(own_value() * jnp.ones(2))

    two_replicas.run(step)
    two_replicas.run(mirrax.function(step))
    two_replicas.run(step)
    assert parts(two_replicas, v) == [[3.0, 3.0], [6.0, 6.0]]


# Reading in cross-replica context.


@engines
@pytest.mark.parametrize(
    ("aggregation", "combine"),
    [(SUM, sum), (MEAN, np.mean), (FIRST, min)],
    ids=["sum", "mean", "first"],
)
def test_reading_outside_run_combines_the_copies(
    strategy, engine, aggregation, combine
):
    v = create_on_read(strategy, 0.0, aggregation)
    strategy.run(engine(lambda: v.assign(own_value())))
    expected = combine(range(1, strategy.num_replicas_in_sync + 1))
    assert v.numpy() == expected
    assert v.read_value() == expected
    assert v + 0.0 == expected
    assert engine(lambda: v.value * 1)() == expected


def test_reading_leaves_the_copies_different(two_replicas):
    v = create_on_read(two_replicas, 0.0, SUM)
    two_replicas.run(lambda: v.assign(own_value()))
    v.read_value()
    assert parts(two_replicas, v) == [1.0, 2.0]


@engines
@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(SUM, [3.0, 6.0]), (MEAN, [1.5, 3.0]), (FIRST, [1.0, 2.0])],
    ids=["sum", "mean", "first"],
)
def test_merge_function_reads_the_combined_value(
    two_replicas, engine, aggregation, expected
):
    v = create_on_read(two_replicas, [0.0, 0.0], aggregation)

    def step():
        v.assign(own_value() * jnp.array([1.0, 2.0]))
        return mirrax.get_replica_context().merge_call(lambda strategy: v.value + 0)

    assert parts(two_replicas, two_replicas.run(engine(step)))[0] == expected


@pytest.mark.parametrize(
    "read",
    [lambda v: v.value, lambda v: v.numpy(), lambda v: v.read_value(), lambda v: v + 1],
    ids=["value", "numpy", "read_value", "add"],
)
@engines
def test_reading_without_aggregation_is_refused(two_replicas, engine, read):
    v = create_on_read(two_replicas, 1.0, NONE)
    message = r"Aggregation.NONE: its copies cannot be combined.*Read it inside"
    with pytest.raises(ValueError, match=message):
        engine(lambda: read(v))()


def test_copies_can_be_looked_at_without_aggregation(two_replicas):
    v = create_on_read(two_replicas, 1.0, NONE)
    two_replicas.run(lambda: v.assign(own_value()))
    assert parts(two_replicas, v) == [1.0, 2.0]


# The initial value.


def test_every_copy_starts_with_the_whole_initial_value():
    strategy = mirrored(3)
    v = create_on_read(strategy, 1.0, SUM)
    assert parts(strategy, v) == [1.0, 1.0, 1.0]
    assert v.numpy() == 3.0


def test_callable_initial_value_is_called_once():
    strategy = mirrored(3)
    calls = []

    def initial_value():
        calls.append(1)
        return jnp.float32(len(calls))

    v = create_on_read(strategy, initial_value, SUM)
    assert len(calls) == 1
    assert parts(strategy, v) == [1.0, 1.0, 1.0]


# Writing in cross-replica context.


@engines
def test_sum_is_divided_among_the_copies(two_replicas, engine):
    v = create_on_read(two_replicas, 1.0, SUM)
    engine(lambda: v.assign(8.0))()
    assert parts(two_replicas, v) == [4.0, 4.0]
    assert v.numpy() == 8.0


@engines
def test_sum_of_integers_loses_the_remainder(two_replicas, engine):
    v = create_on_read(two_replicas, 1, SUM)
    engine(lambda: v.assign(7))()
    assert parts(two_replicas, v) == [3, 3]
    assert v.numpy() == 6
    assert v.value.dtype == np.int32


@engines
@pytest.mark.parametrize("method", ["assign_add", "assign_sub"])
def test_change_of_a_sum_outside_run_is_refused(two_replicas, engine, method):
    v = create_on_read(two_replicas, 1.0, SUM)
    message = r"does not support `assign_add` and `assign_sub` in cross-.*'Variable:0'"
    with pytest.raises(ValueError, match=message):
        engine(lambda: getattr(v, method)(1.0))()
    assert parts(two_replicas, v) == [1.0, 1.0]


@engines
@pytest.mark.parametrize("aggregation", [MEAN, FIRST], ids=["mean", "first"])
@pytest.mark.parametrize(
    ("method", "expected"),
    [("assign", [8.0, 8.0]), ("assign_add", [9.0, 10.0]), ("assign_sub", [-7.0, -6.0])],
    ids=["assign", "assign_add", "assign_sub"],
)
def test_write_outside_run_reaches_every_copy_whole(
    two_replicas, engine, aggregation, method, expected
):
    v = create_on_read(two_replicas, 0.0, aggregation)
    two_replicas.run(lambda: v.assign(own_value()))
    engine(lambda: getattr(v, method)(8.0))()
    assert parts(two_replicas, v) == expected


@engines
@COMBINING
def test_assignment_outside_run_gives_the_new_value(two_replicas, engine, aggregation):
    v = create_on_read(two_replicas, 1.0, aggregation)
    assert float(engine(lambda: v.assign(8.0))()) == 8.0


@engines
@pytest.mark.parametrize("aggregation", [MEAN, FIRST], ids=["mean", "first"])
def test_addition_outside_run_gives_the_new_value(two_replicas, engine, aggregation):
    v = create_on_read(two_replicas, 1.0, aggregation)
    assert float(engine(lambda: v.assign_add(8.0))()) == 9.0


@engines
@COMBINING
@pytest.mark.parametrize("value", [8.0, [8.0, 4.0]], ids=["scalar", "vector"])
def test_merge_function_can_assign(two_replicas, engine, aggregation, value):
    v = create_on_read(two_replicas, np.ones_like(value), aggregation)

    def write(strategy):
        v.assign(value)

    def step():
        mirrax.get_replica_context().merge_call(write)

    two_replicas.run(engine(step))
    assert v.shape == np.shape(value)
    assert v.numpy().tolist() == value


@engines
@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_write_outside_run_without_aggregation_is_refused(two_replicas, engine, method):
    v = create_on_read(two_replicas, 1.0, NONE)
    message = "aggregation NONE, so it has no value outside `run`.*Write it inside"
    with pytest.raises(ValueError, match=message):
        engine(lambda: getattr(v, method)(2.0))()
    assert parts(two_replicas, v) == [1.0, 1.0]


@engines
@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_per_replica_value_is_refused_outside_run(two_replicas, engine, aggregation):
    v = create_on_read(two_replicas, 1.0, aggregation)
    value = per_replica(two_replicas, [jnp.float32(1), jnp.float32(2)])
    with pytest.raises(ValueError, match="Variable:0"):
        engine(v.assign)(value)
    assert parts(two_replicas, v) == [1.0, 1.0]


def test_one_replica_follows_the_same_rules():
    v = create_on_read(mirrored(1), 1.0, SUM)
    v.assign(8.0)
    assert v.numpy() == 8.0


# Values that are handed out stay what they were.


@COMBINING
def test_value_stays_valid_after_a_compiled_step(strategy, aggregation):
    v = create_on_read(strategy, [1.0, 2.0], aggregation)
    old = v.value
    before = np.array(old)
    strategy.run(mirrax.function(lambda: v.assign_add(jnp.ones(2))))
    assert old.tolist() == before.tolist()


@COMBINING
def test_part_stays_valid_after_a_compiled_step(two_replicas, aggregation):
    v = create_on_read(two_replicas, [1.0, 2.0], aggregation)
    old = two_replicas.experimental_local_results(v)[1].value
    two_replicas.run(mirrax.function(lambda: v.assign_add(jnp.ones(2))))
    assert old.tolist() == [1.0, 2.0]


def test_value_read_in_run_stays_valid_after_a_compiled_step(two_replicas):
    v = create_on_read(two_replicas, [1.0, 2.0], SUM)
    old = two_replicas.run(lambda: v.value)
    two_replicas.run(mirrax.function(lambda: v.assign_add(jnp.ones(2))))
    assert parts(two_replicas, old) == [[1.0, 2.0]] * 2


def test_users_initial_array_survives_a_compiled_step(two_replicas):
    mine = jnp.array([1.0, 2.0])
    v = create_on_read(two_replicas, mine, SUM)
    two_replicas.run(mirrax.function(lambda: v.assign_add(jnp.ones(2))))
    assert mine.tolist() == [1.0, 2.0]


# In JAX programs.


def test_read_in_a_foreign_trace_is_refused(two_replicas):
    v = create_on_read(two_replicas, 1.0, SUM)
    with pytest.raises(RuntimeError, match=r"'Variable:0' was read inside jax.jit"):
        jax.jit(lambda x: x + v)(1.0)


def test_variable_is_an_argument_of_jit(two_replicas):
    v = create_on_read(two_replicas, 1.0, SUM)
    assert jax.jit(lambda x: 2 * x)(v) == 4.0


@engines
def test_integer_counter_counts_in_both_engines(strategy, engine):
    v = create_on_read(strategy, 0, SUM)
    strategy.run(engine(lambda: v.assign_add(1)))
    assert v.numpy() == strategy.num_replicas_in_sync
