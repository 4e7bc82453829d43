"""What every strategy does: scopes, runs, results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.variables import MirroredVariable
from tests.programs import (
    create,
    device_of,
    engines,
    mirrored,
    parts,
    per_replica,
    replica_id,
)

# Scopes.


def test_scope_gives_the_strategy(strategy):
    with strategy.scope() as given:
        assert given is strategy


def test_scope_may_be_entered_again_inside_itself(two_replicas):
    with two_replicas.scope():
        with two_replicas.scope():
            inner = mirrax.Variable(1.0)
        outer = mirrax.Variable(1.0)
        assert mirrax.get_strategy() is two_replicas
    assert type(inner) is MirroredVariable
    assert type(outer) is MirroredVariable
    assert not mirrax.has_strategy()


def test_scope_of_another_strategy_is_refused(strategy):
    other = mirrored(2)
    message = (
        r"^Mixing different tf.distribute.Strategy objects: `strategy.scope\(\)` was "
        r"called inside the scope of another strategy. "
        r"Received: <mirrax.MirroredStrategy on .*> inside <mirrax.*>.*leave the outer"
    )
    with strategy.scope(), pytest.raises(RuntimeError, match=message):
        other.scope()


def test_scope_made_before_is_refused_inside_another(strategy):
    prepared = mirrored(2).scope()
    with strategy.scope(), pytest.raises(RuntimeError, match="another strategy"):
        prepared.__enter__()


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.run(lambda: 1),
        lambda s: s.reduce("MEAN", 1.0, axis=None),
        lambda s: s.gather(jnp.ones(1), axis=0),
    ],
    ids=["run", "reduce", "gather"],
)
def test_other_strategy_is_not_used_inside_a_scope(strategy, use):
    other = mirrored(2)
    with (
        strategy.scope(),
        pytest.raises(RuntimeError, match="scope of another strategy"),
    ):
        use(other)


IN_REPLICA = {
    "`strategy.run`": lambda s: s.run(lambda: 1),
    "`strategy.reduce`": lambda s: s.reduce("SUM", 1.0, axis=None),
    "`strategy.gather`": lambda s: s.gather(jnp.ones(1), axis=0),
    "`strategy.scope()`": lambda s: s.scope(),
    "`experimental_distribute_values_from_function`": lambda s: (
        s.experimental_distribute_values_from_function(lambda context: 1)
    ),
    "`extended.reduce_to`": lambda s: s.extended.reduce_to("SUM", 1.0, "CPU:0"),
    "`extended.broadcast_to`": lambda s: s.extended.broadcast_to(1.0, "CPU:0"),
    "`extended.read_var`": lambda s: s.extended.read_var(mirrax.Variable(1.0)),
}


@engines
@pytest.mark.parametrize("what", IN_REPLICA)
def test_cross_replica_methods_are_refused_in_a_replica(strategy, engine, what):
    with pytest.raises(RuntimeError) as error:
        strategy.run(engine(lambda: IN_REPLICA[what](strategy)))
    message = str(error.value)
    rule = "Method requires being in cross-replica context"
    assert message.startswith(f"{rule}: {what} works on all replicas at once")
    assert "You are in replica context" in message


@pytest.mark.parametrize("what", ["`strategy.run`", "`strategy.reduce`"])
def test_cross_replica_methods_work_in_a_merge_function(strategy, what):
    uses = {
        "`strategy.run`": lambda s: s.run(lambda: 1.0),
        "`strategy.reduce`": lambda s: s.reduce("MEAN", 1.0, axis=None),
    }
    result = strategy.run(lambda: mirrax.get_replica_context().merge_call(uses[what]))
    assert parts(strategy, result)[0] == 1.0


# Runs.


@engines
def test_run_gives_each_replica_its_arguments(strategy, engine):
    count = strategy.num_replicas_in_sync
    value = strategy.experimental_distribute_values_from_function(
        lambda context: jnp.float32(context.replica_id_in_sync_group)
    )
    result = strategy.run(
        engine(lambda x, y, z: x * y + z), args=(value, 10.0), kwargs={"z": 1.0}
    )
    assert parts(strategy, result) == [10.0 * i + 1 for i in range(count)]


def test_run_takes_a_list_of_arguments(strategy):
    result = strategy.run(lambda x, y: jnp.float32(x + y), args=[1, 2])
    assert parts(strategy, result) == [3.0] * strategy.num_replicas_in_sync


def test_run_accepts_tensorflows_options(strategy):
    result = strategy.run(lambda: "done", options=mirrax.RunOptions())
    assert result == "done"


def test_run_puts_each_replica_on_its_device(strategy):
    result = strategy.run(lambda: jnp.ones(2))
    found = [device_of(part) for part in strategy.experimental_local_results(result)]
    assert found == list(strategy.topology.devices)


def test_run_merges_the_same_object(strategy):
    assert strategy.run(lambda: "same") == "same"


@engines
def test_run_gives_none_for_none(strategy, engine):
    assert strategy.run(engine(lambda: None)) is None


@pytest.mark.parametrize("fn", [None, 3, "fn"], ids=repr)
def test_run_needs_a_function(strategy, fn):
    with pytest.raises(TypeError, match=r"run\(fn, args=.*Received: fn="):
        strategy.run(fn)


@engines
def test_single_replica_gives_bare_values(engine):
    for_one = mirrored(1).run(engine(lambda: jnp.float32(1)))
    for_device = mirrax.OneDeviceStrategy("CPU:2").run(engine(lambda: jnp.float32(1)))
    assert isinstance(for_one, jax.Array)
    assert isinstance(for_device, jax.Array)
    assert for_one + for_device == 2.0


# Results.


def test_local_results_of_a_per_replica_value(strategy):
    count = strategy.num_replicas_in_sync
    result = strategy.run(lambda: jnp.float32(replica_id()))
    assert parts(strategy, result) == list(range(count))


@engines
@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()], ids=str)
def test_local_results_of_parts_of_any_size(strategy, engine, shape):
    value = per_replica(strategy, [jnp.ones(shape)] * strategy.num_replicas_in_sync)
    parts = engine(strategy.experimental_local_results)(value)
    assert [part.shape for part in parts] == [shape] * strategy.num_replicas_in_sync


@engines
def test_local_results_of_an_all_reduce(strategy, engine):
    count = strategy.num_replicas_in_sync

    def step():
        return mirrax.get_replica_context().all_reduce("SUM", jnp.float32(1))

    assert parts(strategy, strategy.run(engine(step))) == [count] * count


@pytest.mark.parametrize("value", [1.0, "text", None], ids=repr)
def test_local_results_of_a_single_value(strategy, value):
    assert strategy.experimental_local_results(value) == (value,)


def test_local_results_of_a_structure_are_structures(two_replicas):
    result = two_replicas.run(lambda: {"id": replica_id(), "name": "same"})
    assert two_replicas.experimental_local_results(result) == (
        {"id": 0, "name": "same"},
        {"id": 1, "name": "same"},
    )


@pytest.mark.parametrize("empty", [[], (), {}], ids=repr)
def test_local_results_of_an_empty_structure_are_one_for_each_replica(strategy, empty):
    # As TensorFlow 2.21 answers.
    expected = (empty,) * strategy.num_replicas_in_sync
    assert strategy.experimental_local_results(empty) == expected


def test_local_results_of_a_variable_are_its_copies(strategy):
    v = create(strategy, 2.0)
    assert parts(strategy, v) == [2.0] * strategy.num_replicas_in_sync


# Values from a function.


def test_values_from_a_function_know_their_replica(strategy):
    count = strategy.num_replicas_in_sync
    seen = []

    def make(context):
        seen.append((context.replica_id_in_sync_group, context.num_replicas_in_sync))
        return jnp.float32(context.replica_id_in_sync_group)

    value = strategy.experimental_distribute_values_from_function(make)
    assert seen == [(i, count) for i in range(count)]
    assert parts(strategy, value) == list(range(count))


@engines
def test_none_can_be_the_value_of_a_replica(two_replicas, engine):
    value = two_replicas.experimental_distribute_values_from_function(lambda c: None)
    assert value.values == (None, None)
    result = two_replicas.run(engine(lambda x: jnp.float32(x is None)), (value,))
    assert parts(two_replicas, result) == [1.0, 1.0]


def test_values_of_different_structures_are_refused(two_replicas):
    with pytest.raises(AssertionError, match="must return the same structure"):
        two_replicas.experimental_distribute_values_from_function(
            lambda c: {"a": 1} if c.replica_id_in_sync_group else {"b": 1}
        )


@pytest.mark.parametrize("shape", [(), (2,)], ids=["scalar", "vector"])
def test_compiled_function_returns_values_from_a_function(strategy, shape):
    @mirrax.function
    def make():
        return strategy.experimental_distribute_values_from_function(
            lambda context: jnp.ones(shape) * context.replica_id_in_sync_group
        )

    for value in (make(), make()):
        found = strategy.experimental_local_results(value)
        assert [part.shape for part in found] == [shape] * len(found)
        assert [float(part.sum()) for part in found] == [
            float(np.prod(shape)) * i for i in range(strategy.num_replicas_in_sync)
        ]


def test_none_can_be_the_value_of_some_replicas(two_replicas):
    _, value = two_replicas.experimental_distribute_values_from_function(
        lambda c: ("x", c.replica_id_in_sync_group or None)
    )
    assert value.values == (None, 1)


def test_values_from_a_function_lie_on_their_devices(strategy):
    value = strategy.experimental_distribute_values_from_function(lambda c: jnp.ones(2))
    found = [device_of(part) for part in strategy.experimental_local_results(value)]
    assert found == list(strategy.topology.devices)


def test_values_tied_to_a_device_are_moved(two_replicas):
    tied = jax.device_put(jnp.ones(2), jax.devices("cpu")[5])
    value = two_replicas.experimental_distribute_values_from_function(lambda c: tied)
    found = [device_of(part) for part in value.values]
    assert found == list(two_replicas.topology.devices)


def test_values_from_a_function_are_never_merged(two_replicas):
    same = object()
    value = two_replicas.experimental_distribute_values_from_function(lambda c: same)
    assert isinstance(value, mirrax.PerReplica)
    assert value.values == (same, same)


def test_values_from_a_function_of_one_device_are_plain():
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    value = strategy.experimental_distribute_values_from_function(lambda c: [1, "a"])
    assert value == [1, "a"]


def test_values_from_a_function_may_be_structures(two_replicas):
    value = two_replicas.experimental_distribute_values_from_function(
        lambda c: {"x": (c.replica_id_in_sync_group, None)}
    )
    assert value["x"][0].values == (0, 1)
    assert value["x"][1].values == (None, None)


@engines
def test_values_from_a_function_are_arguments_of_run(two_replicas, engine):
    value = two_replicas.experimental_distribute_values_from_function(
        lambda c: {"x": np.arange(2.0, dtype=np.float32) + c.replica_id_in_sync_group}
    )
    result = two_replicas.run(engine(lambda batch: batch["x"] * 2), args=(value,))
    assert parts(two_replicas, result) == [[0.0, 2.0], [2.0, 4.0]]


def test_value_context_alone_is_that_of_one_replica():
    assert mirrax.ValueContext() == mirrax.ValueContext(0, 1)


# Facts.


def test_strategy_knows_its_replicas(strategy):
    assert strategy.num_replicas_in_sync == len(strategy.extended.worker_devices)
    assert strategy.topology.num_replicas == strategy.num_replicas_in_sync


def test_strategy_of_one_machine_has_no_cluster(strategy):
    assert strategy.cluster_resolver is None


def test_strategy_shows_its_devices():
    strategy = mirrax.OneDeviceStrategy("CPU:1")
    name = "/job:localhost/replica:0/task:0/device:CPU:1"
    assert repr(strategy) == f"<mirrax.OneDeviceStrategy on ['{name}']>"


def test_texts_for_each_replica_stay_on_the_host(two_replicas):
    texts = (np.array([b"left"], object), np.array([b"right"], object))
    value = two_replicas.experimental_distribute_values_from_function(
        lambda c: texts[c.replica_id_in_sync_group]
    )
    assert two_replicas.run(lambda t: t[0], args=(value,)).values == (b"left", b"right")


def test_value_context_prints_as_in_tensorflow():
    assert str(mirrax.ValueContext(1, 2)) == (
        "tf.distribute.ValueContext(replica id 1,  total replicas in sync: 2)"
    )


def test_values_from_a_function_are_copies_of_its_arrays(two_replicas):
    memory = np.zeros(4096 + 16, np.float32)
    # JAX shares memory that begins at a multiple of 64 bytes.
    start = -memory.ctypes.data % 64 // 4
    array = memory[start : start + 4096]

    def make(context):
        array[:] = context.replica_id_in_sync_group
        return array

    value = two_replicas.experimental_distribute_values_from_function(make)
    array[:] = 7
    assert [float(part[0]) for part in value.values] == [0, 1]
