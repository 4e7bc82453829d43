"""Mirrored variables: every write reaches all copies, and they never drift apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import VariableAggregation
from tests.programs import (
    create,
    device_of,
    engines,
    mirrored,
    parts,
    per_replica,
    replica_id,
)

SUM = VariableAggregation.SUM
MEAN = VariableAggregation.MEAN
FIRST = VariableAggregation.ONLY_FIRST_REPLICA


def own_value():
    """Returns 1 on replica 0, 2 on replica 1, and so on."""
    return jnp.float32(replica_id()) + 1


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_repr_is_that_of_the_documents(num_replicas):
    lines = [
        "  0: <mirrax.Variable 'Variable:0' shape=() dtype=float32, numpy=1.0>",
        "  1: <mirrax.Variable 'Variable/replica_1:0' "
        "shape=() dtype=float32, numpy=1.0>",
    ]
    inside = ",\n".join(lines[:num_replicas])
    v = create(mirrored(num_replicas), 1.0)
    assert repr(v) == f"MirroredVariable:{{\n{inside}\n}}"


def test_device_is_that_of_the_first_copy():
    v = create(mirrax.MirroredStrategy(["CPU:2", "CPU:1"]), 1.0)
    assert v.device == "/job:localhost/replica:0/task:0/device:CPU:2"


# Writes in cross-replica context.


@engines
@pytest.mark.parametrize(
    ("method", "expected"),
    [("assign", [3.0, 4.0]), ("assign_add", [4.0, 6.0]), ("assign_sub", [-2.0, -2.0])],
    ids=["assign", "assign_add", "assign_sub"],
)
@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_write_outside_run_reaches_every_copy(
    two_replicas, engine, method, expected, aggregation
):
    v = create(two_replicas, [1.0, 2.0], aggregation=aggregation)
    engine(lambda: getattr(v, method)([3.0, 4.0]))()
    assert parts(two_replicas, v) == [expected] * 2


@engines
def test_write_inside_the_scope_reaches_every_copy(two_replicas, engine):
    v = create(two_replicas, 1.0)
    with two_replicas.scope():
        engine(lambda: v.assign(5.0))()
    assert parts(two_replicas, v) == [5.0, 5.0]


def test_write_outside_run_gives_a_mirrored_value(two_replicas):
    result = create(two_replicas, 1.0).assign_add(2.0)
    assert isinstance(result, mirrax.Mirrored)
    assert float(result) == 3.0


def test_compiled_write_outside_run_gives_the_new_value(two_replicas):
    v = create(two_replicas, 1.0)
    assert float(mirrax.function(lambda: v.assign_add(2.0))()) == 3.0


@engines
@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_per_replica_value_is_refused_outside_run(
    two_replicas, engine, method, aggregation
):
    v = create(two_replicas, 1.0, aggregation=aggregation)
    value = per_replica(two_replicas, [jnp.float32(1), jnp.float32(2)])
    message = "'Variable:0' is mirrored.* Received: a PerReplica. Reduce it first"
    with pytest.raises(ValueError, match=message):
        engine(getattr(v, method))(value)
    assert parts(two_replicas, v) == [1.0, 1.0]


@engines
def test_mirrored_value_can_be_assigned(two_replicas, engine):
    v, w = create(two_replicas, [1.0, 2.0]), create(two_replicas, [0.0, 0.0])
    value = two_replicas.extended.broadcast_to(jnp.array([3.0, 4.0]), v)
    engine(w.assign)(value)
    assert parts(two_replicas, w) == [[3.0, 4.0]] * 2


def test_mirrored_array_can_be_assigned(two_replicas):
    v = create(two_replicas, 1.0)
    step = mirrax.function(
        lambda: mirrax.get_replica_context().all_reduce("SUM", own_value())
    )
    v.assign(two_replicas.run(step))
    assert parts(two_replicas, v) == [3.0, 3.0]


def test_array_tied_to_another_device_can_be_assigned(two_replicas):
    v = create(two_replicas, [1.0, 2.0])
    v.assign_add(jax.device_put(jnp.ones(2), jax.devices("cpu")[5]))
    assert parts(two_replicas, v) == [[2.0, 3.0]] * 2


# Writes in replica context.


@engines
@pytest.mark.parametrize(
    ("aggregation", "combined"),
    [(SUM, 3.0), (MEAN, 1.5), (FIRST, 1.0)],
    ids=["sum", "mean", "first"],
)
@pytest.mark.parametrize(
    ("method", "sign", "kept"),
    [("assign", 1, 0.0), ("assign_add", 1, 10.0), ("assign_sub", -1, 10.0)],
    ids=["assign", "assign_add", "assign_sub"],
)
def test_write_in_run_is_aggregated(
    two_replicas, engine, aggregation, combined, method, sign, kept
):
    v = create(two_replicas, 10.0, aggregation=aggregation)
    two_replicas.run(engine(lambda: getattr(v, method)(own_value())))
    assert parts(two_replicas, v) == [kept + sign * combined] * 2


@engines
@pytest.mark.parametrize(
    ("aggregation", "combine"),
    [(SUM, sum), (MEAN, np.mean), (FIRST, min)],
    ids=["sum", "mean", "first"],
)
def test_write_in_run_is_aggregated_on_every_strategy(
    strategy, engine, aggregation, combine
):
    count = strategy.num_replicas_in_sync
    v = create(strategy, [10.0, 20.0], aggregation=aggregation)
    strategy.run(engine(lambda: v.assign_add(own_value() * jnp.ones(2))))
    change = combine(range(1, count + 1))
    assert v.numpy().tolist() == [10.0 + change, 20.0 + change]
    assert parts(strategy, v)[-1] == v.numpy().tolist()


@engines
@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(SUM, 4.0), (MEAN, 2.0), (FIRST, 2.0), (VariableAggregation.NONE, 2.0)],
    ids=["sum", "mean", "first", "none"],
)
@pytest.mark.parametrize(
    "value", [2.0, np.float32(2), jnp.float32(2)], ids=["number", "numpy", "array"]
)
def test_one_value_of_all_replicas_counts_for_each(
    two_replicas, engine, aggregation, expected, value
):
    v = create(two_replicas, 0.0, aggregation=aggregation)
    two_replicas.run(engine(lambda: v.assign(value)))
    assert parts(two_replicas, v) == [expected] * 2


@engines
def test_sum_of_integers_is_kept_as_integers(two_replicas, engine):
    v = create(two_replicas, 1, aggregation=SUM)
    two_replicas.run(engine(lambda: v.assign_add(jnp.int32(replica_id() + 1))))
    assert parts(two_replicas, v) == [4, 4]
    assert v.value.dtype == np.int32


@engines
def test_first_replica_counts_for_integers(two_replicas, engine):
    v = create(two_replicas, 0, aggregation=FIRST)
    two_replicas.run(engine(lambda: v.assign(jnp.int32(replica_id() + 7))))
    assert parts(two_replicas, v) == [7, 7]


@engines
def test_write_in_run_gives_the_new_value_to_each_replica(strategy, engine):
    count = strategy.num_replicas_in_sync
    v = create(strategy, 1.0, aggregation=SUM)

    def step():
        returned = v.assign_add(jnp.float32(2))
        return returned + 0, v.value + 0

    returned, read = strategy.run(engine(step))
    assert parts(strategy, returned) == [1.0 + 2 * count] * count
    assert parts(strategy, read) == [1.0 + 2 * count] * count


@engines
def test_write_after_write_sees_the_first(two_replicas, engine):
    v = create(two_replicas, 1.0, aggregation=SUM)

    def step():
        v.assign_add(own_value())
        v.assign(v.value * 10)

    two_replicas.run(engine(step))
    assert parts(two_replicas, v) == [80.0, 80.0]


@engines
def test_write_in_a_merge_function_is_not_aggregated(two_replicas, engine):
    v = create(two_replicas, 1.0, aggregation=SUM)

    def add_five(strategy):
        v.assign_add(5.0)

    def step():
        mirrax.get_replica_context().merge_call(add_five)

    two_replicas.run(engine(step))
    assert parts(two_replicas, v) == [6.0, 6.0]


@engines
def test_per_replica_value_is_refused_in_a_merge_function(two_replicas, engine):
    v = create(two_replicas, 1.0)

    def write(strategy, x):
        v.assign(x)

    def step():
        mirrax.get_replica_context().merge_call(write, args=(own_value(),))

    with pytest.raises(ValueError, match=r"Received: a PerReplica. Reduce it first"):
        two_replicas.run(engine(step))


# Without aggregation.


@engines
def test_equal_values_are_written_without_aggregation(strategy, engine):
    count = strategy.num_replicas_in_sync
    v = create(strategy, 1.0)
    strategy.run(engine(lambda: v.assign_add(jnp.float32(2))))
    assert parts(strategy, v) == [3.0] * count


@engines
def test_reduced_values_are_written_without_aggregation(strategy, engine):
    count = strategy.num_replicas_in_sync
    v = create(strategy, 0.0)

    def step():
        v.assign(mirrax.get_replica_context().all_reduce("SUM", own_value()))

    strategy.run(engine(step))
    assert parts(strategy, v) == [count * (count + 1) / 2] * count


def test_drift_is_refused_in_eager_code(two_replicas):
    v = create(two_replicas, 0.0, name="weight")
    message = (
        r"Variable 'weight:0' has aggregation NONE, so every replica must assign the "
        r"same value. Received: replica 0 assigns 1.0, replica 1 assigns 2.0. Combine "
        r"the values first \(`get_replica_context\(\).all_reduce`\), or create the "
        r"variable with an `aggregation`"
    )
    with pytest.raises(ValueError, match=message):
        two_replicas.run(lambda: v.assign(own_value()))


def test_drift_is_refused_in_compiled_code(two_replicas):
    v = create(two_replicas, 0.0, name="weight")
    message = (
        r"Variable 'weight:0' must be assigned the same value by every replica. "
        r"Received: a value that differs between replicas. Combine it first "
        r"\(`get_replica_context\(\).all_reduce`\), or create the variable with an "
        r"`aggregation`"
    )
    with pytest.raises(ValueError, match=message):
        two_replicas.run(mirrax.function(lambda: v.assign(own_value())))


@engines
@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_refused_drift_leaves_the_variable_as_it_was(four_replicas, engine, method):
    v = create(four_replicas, 5.0)
    with pytest.raises(ValueError, match="replica"):
        four_replicas.run(engine(lambda: getattr(v, method)(own_value())))
    assert parts(four_replicas, v) == [5.0] * 4


def test_drift_of_one_of_many_replicas_is_refused(four_replicas):
    v = create(four_replicas, 0.0)
    value = per_replica(four_replicas, [jnp.float32(x) for x in (1, 1, 9, 1)])
    with pytest.raises(
        ValueError, match=r"replica 0 assigns 1.0, replica 2 assigns 9.0"
    ):
        four_replicas.run(v.assign, args=(value,))


@engines
def test_drift_under_a_condition_is_refused(two_replicas, engine):
    v = create(two_replicas, 0.0)

    def step():
        is_first = jnp.asarray(replica_id()) == 0
        v.assign(jax.lax.cond(is_first, lambda: 1.0, lambda: 2.0))

    with pytest.raises(ValueError, match="every replica"):
        two_replicas.run(engine(step))


@engines
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_equal_nans_are_no_drift(two_replicas, engine, dtype):
    v = create(two_replicas, jnp.zeros(2, dtype))
    two_replicas.run(engine(lambda: v.assign(jnp.full(2, jnp.nan, dtype))))
    assert np.isnan(v.numpy().astype(np.complex64)).all()


# Reading.


@engines
def test_each_replica_reads_the_value(strategy, engine):
    count = strategy.num_replicas_in_sync
    v = create(strategy, [1.0, 2.0])
    result = strategy.run(engine(lambda: v * own_value()))
    assert parts(strategy, result) == [[i + 1.0, 2 * i + 2.0] for i in range(count)]


def test_eager_replica_reads_its_own_copy(two_replicas):
    v = create(two_replicas, [1.0, 2.0])
    found = two_replicas.run(lambda: str(device_of(v.value)))
    assert found.values == tuple(str(d) for d in two_replicas.topology.devices)


def test_value_outside_run_can_be_mixed_with_other_arrays(two_replicas):
    v = create(two_replicas, [1.0, 2.0])
    tied = jax.device_put(jnp.ones(2), jax.devices("cpu")[6])
    assert (v.value + tied).tolist() == [2.0, 3.0]


@engines
def test_variable_as_an_argument_stays_a_variable(two_replicas, engine):
    v = create(two_replicas, 1.0, aggregation=SUM)
    seen = []

    def step(argument):
        seen.append(argument)
        argument.assign_add(own_value())

    two_replicas.run(engine(step), args=(v,))
    assert all(argument is v for argument in seen)
    assert parts(two_replicas, v) == [4.0, 4.0]


@engines
def test_returned_variable_is_the_variable(strategy, engine):
    v = create(strategy, 1.0)
    assert strategy.run(engine(lambda: v)) is v


@engines
def test_variable_in_a_returned_structure_is_the_variable(strategy, engine):
    v = create(strategy, 1.0)
    result = strategy.run(engine(lambda: {"v": v, "x": jnp.float32(1)}))
    assert result["v"] is v


# Variables and other strategies.


def test_variable_of_another_strategy_is_refused_in_eager_run(two_replicas):
    v = create(mirrax.MirroredStrategy(["CPU:2", "CPU:3"]), 1.0)
    message = r"is on \[.*CPU:2.*\]. Received: a use inside `run` .*CPU:0.*CPU:1"
    with pytest.raises(RuntimeError, match=message):
        two_replicas.run(lambda: v.value)


def test_variable_of_another_strategy_is_not_written_in_eager_run(two_replicas):
    v = create(mirrax.MirroredStrategy(["CPU:2", "CPU:3"]), 1.0)
    with pytest.raises(RuntimeError, match=r"is on .* Create it in the scope"):
        two_replicas.run(lambda: v.assign(2.0))
    assert v.numpy() == 1.0


def test_variable_of_another_strategy_is_refused_in_compiled_run(two_replicas):
    v = create(mirrax.MirroredStrategy(["CPU:2", "CPU:3"]), 1.0)
    with pytest.raises((RuntimeError, ValueError), match="strategy"):
        two_replicas.run(mirrax.function(lambda: v.value))


@engines
@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_only_replica_of_another_strategy_writes_once(
    two_replicas, engine, aggregation
):
    v = create(two_replicas, 1.0, aggregation=aggregation)
    mirrax.get_strategy().run(engine(lambda: v.assign_add(jnp.float32(2))))
    assert parts(two_replicas, v) == [3.0, 3.0]


def test_variables_of_two_strategies_are_refused_in_one_function(two_replicas):
    v = create(two_replicas, 1.0)
    w = create(mirrax.MirroredStrategy(["CPU:2", "CPU:3"]), 1.0)
    message = "One function can use the devices of one strategy.* Use one|Split the"
    with pytest.raises(ValueError, match=message):
        mirrax.function(lambda: v + w)()


def test_variables_of_two_strategies_can_be_mixed_in_eager_code(two_replicas):
    v = create(two_replicas, [1.0, 2.0])
    w = create(mirrax.MirroredStrategy(["CPU:2", "CPU:3"]), [10.0, 20.0])
    v.assign_add(w)
    assert (v + w).tolist() == [21.0, 42.0]
