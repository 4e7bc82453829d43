import itertools

import numpy as np
import pytest

import mirrax
from mirrax import tf


@pytest.fixture
def strategy():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture
def stand_in_tpus(monkeypatch):
    """Makes four CPU devices pass for TPUs."""
    cpus = mirrax.config.list_logical_devices("CPU")[:4]
    monkeypatch.setattr(mirrax.config, "list_logical_devices", lambda kind=None: cpus)


@pytest.mark.usefixtures("stand_in_tpus")
def test_tpu_strategy_has_a_replica_on_each_tpu():
    resolver = object()
    strategy = tf.distribute.TPUStrategy(resolver)
    assert strategy.num_replicas_in_sync == 4
    assert strategy.cluster_resolver is resolver
    with strategy.scope():
        variable = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    strategy.run(tf.function(lambda: [variable.assign_add(tf.constant(1.0))]))
    assert variable.numpy() == 5


@pytest.mark.usefixtures("stand_in_tpus")
def test_tpu_strategy_uses_the_assigned_devices():
    strategy = tf.distribute.experimental.TPUStrategy(None, [1, 3])
    names = [name[-5:] for name in strategy.extended.worker_devices]
    assert names == ["CPU:1", "CPU:3"]


@pytest.mark.usefixtures("stand_in_tpus")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"experimental_device_assignment": [4]}, ValueError, r"from 0 to 3.*\[4\]"),
        (
            {"experimental_spmd_xla_partitioning": True},
            NotImplementedError,
            "jax.sharding",
        ),
    ],
    ids=["no_such_device", "partitioning"],
)
def test_tpu_strategy_refuses(options, error, message):
    with pytest.raises(error, match=message):
        tf.distribute.TPUStrategy(**options)


def test_tpu_strategy_needs_tpus():
    with pytest.raises(RuntimeError, match=r"needs TPU devices.*type CPU"):
        tf.distribute.TPUStrategy()


def test_central_storage_gives_per_replica_results():
    strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)

    def step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        v.assign_add(tf.cast(replica + 1, tf.float32))
        return tf.identity(v)

    for fn in (step, tf.function(step)):
        result = strategy.run(fn)
        assert isinstance(result, mirrax.PerReplica)
    assert v.numpy() == 7
    assert strategy.reduce("SUM", result, axis=None).numpy() == 14


def test_collective_hints_are_communication_options():
    hints = tf.distribute.experimental.CollectiveHints(50, timeout_seconds=2.0)
    assert hints == mirrax.CommunicationOptions(50, 2.0)


# What strategies still have of version 1.


def test_iterators_of_version_1_work_on_both_versions(strategy):
    iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(6).batch(4))
    first = strategy.experimental_run(tf.reduce_sum, iterator)
    assert [int(x) for x in strategy.unwrap(first)] == [1, 5]
    assert iterator.output_shapes == (None,)
    assert iterator.output_types == np.int64
    optional = iterator.get_next_as_optional()
    assert optional.has_value()
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()
    iterator.initialize()
    assert len(list(iterator)) == 2


def test_input_functions_are_called_per_worker_only(strategy):
    mode = tf.distribute.InputReplicationMode.PER_REPLICA
    with pytest.raises(ValueError, match="once per worker"):
        strategy.make_input_fn_iterator(lambda _: None, replication_mode=mode)


def test_colocating_needs_the_scope(strategy):
    with strategy.scope():
        variable = tf.Variable(1.0)
        with strategy.colocate_vars_with(variable):
            other = tf.Variable(2.0)
    assert strategy.extended.variable_created_in_scope(other)
    with pytest.raises(RuntimeError, match="Need to be inside"):
        strategy.colocate_vars_with(variable)


def test_group_and_configure_are_accepted(strategy):
    assert strategy.group(tf.constant(1)) == 1
    assert strategy.group(strategy.run(lambda: tf.constant(1))) is None
    assert strategy.configure() is None


# Variables.


def test_variable_takes_the_arguments_of_tensorflow():
    variable = tf.Variable(
        [1.0], validate_shape=True, name="w", dtype=tf.float16, shape=[None]
    )
    assert isinstance(variable, tf.Variable)
    assert variable.name == "w:0"
    assert variable.dtype == np.float16


def test_variable_refuses_another_shape():
    with pytest.raises(ValueError, match=r"must have the shape.*\(1,\)"):
        tf.Variable([1.0], shape=[2])


@pytest.mark.parametrize(
    "optimizer_type",
    [
        tf.compat.v1.train.GradientDescentOptimizer,
        tf.keras.optimizers.SGD,
    ],
)
def test_optimizer_applies_the_constraint_of_a_variable(optimizer_type, strategy):
    with strategy.scope():
        v = tf.Variable([1.0, -2.0], constraint=tf.nn.relu)
        optimizer = optimizer_type(0.5)
    strategy.run(lambda: optimizer.apply_gradients([(tf.ones(2) / 2, v)]))
    assert v.numpy().tolist() == [0.5, 0.0]
    assert v.constraint is tf.nn.relu
    assert tf.Variable(1.0).constraint is None


def test_constraint_that_is_no_function_is_refused():
    with pytest.raises(ValueError, match=r"`constraint` is a function.*Received: 3"):
        tf.Variable(1.0, constraint=3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"initializer": 3.0}, 3),
        ({"shape": [2]}, [0, 0]),
        (
            {"shape": 2, "initializer": np.ones},
            [1, 1],
        ),
    ],
    ids=["value", "zeros", "function"],
)
def test_get_variable_creates_variables(arguments, expected):
    assert tf.get_variable("v", **arguments).numpy().tolist() == expected


def test_get_variable_needs_a_shape():
    with pytest.raises(ValueError, match="needs a shape"):
        tf.get_variable("v")


def test_kinds_of_strategies_are_subclasses_of_strategy():
    distribute, v1 = tf.distribute, tf.compat.v1.distribute
    assert issubclass(distribute.OneDeviceStrategy, distribute.Strategy)
    assert not issubclass(v1.OneDeviceStrategy, distribute.Strategy)
    assert not issubclass(int, distribute.Strategy)


def test_variable_takes_none_for_its_options():
    v = tf.Variable(1.0, synchronization=None, aggregation=None)
    assert v.aggregation is tf.VariableAggregation.NONE
    assert v.synchronization is tf.VariableSynchronization.AUTO


def test_older_name_of_the_multi_worker_strategy_counts_the_newer_in():
    made = tf.distribute.MultiWorkerMirroredStrategy()
    older = tf.distribute.experimental.MultiWorkerMirroredStrategy
    assert isinstance(made, older)
    assert not isinstance(tf.distribute.OneDeviceStrategy("CPU:0"), older)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_axis_of_a_gather_can_be_a_tensor(strategy, wrap):
    def step():
        context = tf.distribute.get_replica_context()
        return context.all_gather(tf.constant([[1.0, 2.0]]), axis=tf.constant(1))

    rows = strategy.run(wrap(step))
    assert rows.values[1].numpy().tolist() == [[1, 2, 1, 2]]
    assert strategy.gather(rows, axis=tf.constant(0)).shape == (2, 4)
    with pytest.raises(TypeError):
        strategy.gather(rows, axis=tf.constant(0.5))


def test_reduce_of_nothing_is_refused(strategy):
    with pytest.raises(ValueError, match=r"Received: None\. Return the value"):
        strategy.reduce("SUM", strategy.run(lambda: None), axis=None)


def test_distributed_datasets_know_how_many_batches_they_have(strategy):
    batches = tf.data.Dataset.range(10).batch(2)
    distribute = strategy.experimental_distribute_dataset
    counts = [distribute(data).cardinality for data in (batches, batches.repeat())]
    assert counts == [5, tf.data.INFINITE_CARDINALITY]
    element = iter(distribute(batches)).get_next_as_optional()
    assert element.has_value(name="has")
    assert element.get_value(name="batch").values[1].numpy() == [1]


def test_input_function_can_return_a_function(strategy):
    numbers = itertools.count(1.0)

    def input_fn(context):
        return lambda: {"z": tf.constant([next(numbers)])}

    iterator = strategy.make_input_fn_iterator(input_fn)
    batches = [iterator.get_next()["z"].values for _ in range(2)]
    assert [[float(part[0]) for part in parts] for parts in batches] == [[1, 2], [3, 4]]


def test_address_of_an_unknown_task_is_refused(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}}')
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert resolver.environment is None
    assert resolver.master("worker", 1) == "b:1"
    with pytest.raises(ValueError, match=r"task_id=None.*add `task` to TF_CONFIG"):
        resolver.master("worker")


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_reductions_can_be_written_as_in_tensorflow(wrap):
    class Doubled(tf.distribute.CrossDeviceOps):
        def reduce_implementation(self, reduce_op, value, destinations, options):
            assert reduce_op == tf.distribute.ReduceOp.SUM
            return mirrax.PerReplica([2 * tf.add_n(list(value.values))] * 2)

        def broadcast_implementation(self, tensor, destinations):
            return super().broadcast_implementation(-tensor, destinations)

    ops = Doubled()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], ops)
    with strategy.scope():
        total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    def step():
        context = tf.distribute.get_replica_context()
        number = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1
        total.assign_add(number)
        return context.all_reduce("MEAN", [number, 10 * number])

    results = strategy.run(wrap(step))
    assert [float(result.values[1]) for result in results] == [3, 30]
    assert total.numpy() == 6
    assert float(ops.broadcast(tf.constant(1.0), "CPU:0")) == -1
    assert isinstance(tf.distribute.NcclAllReduce(), tf.distribute.CrossDeviceOps)
    with pytest.raises(NotImplementedError, match="Define `reduce_implementation`"):
        tf.distribute.CrossDeviceOps().reduce_implementation("SUM", 1.0, "CPU:0", None)


@pytest.mark.parametrize("op", ["SUM", "MEAN"])
@pytest.mark.parametrize(
    "kind",
    [
        tf.distribute.ReductionToOneDevice,
        tf.distribute.HierarchicalCopyAllReduce,
        tf.distribute.NcclAllReduce,
    ],
    ids=lambda kind: kind.__name__,
)
def test_reductions_can_delegate(kind, op):
    class Counted(tf.distribute.CrossDeviceOps):
        inner = kind()
        num_calls = 0

        def reduce_implementation(self, *args):
            self.num_calls += 1
            return self.inner.reduce_implementation(*args)

        def broadcast_implementation(self, tensor, destinations):
            return self.inner.broadcast_implementation(tensor, destinations)

    ops = Counted()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], ops)
    value = mirrax.PerReplica((3.0, 5.0))
    reduced = strategy.run(
        lambda x: tf.distribute.get_replica_context().all_reduce(op, x), (value,)
    )
    assert [float(x) for x in reduced.values] == [8 if op == "SUM" else 4] * 2
    assert ops.num_calls == 1
    assert float(ops.broadcast(tf.constant(1.0), "CPU:0")) == 1


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_all_gather_of_one_replica_takes_every_axis(wrap):
    # As TensorFlow 2.21 answers.
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    value = tf.constant([1.0, 2.0])
    context = tf.distribute.get_replica_context
    found = strategy.run(wrap(lambda x: context().all_gather(x, axis=3)), (value,))
    assert found.numpy().tolist() == [1, 2]


def test_reduce_of_a_list_along_an_axis_makes_one_tensor_of_it(strategy):
    # As TensorFlow 2.21 answers.
    parts = [tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]
    count = strategy.num_replicas_in_sync
    total = strategy.reduce("SUM", parts, axis=0)
    assert total.numpy().tolist() == [4.0 * count, 6.0 * count]
    numbers = strategy.reduce("SUM", [[1.0, 2.0], [3.0, 4.0]], axis=0)
    assert numbers.numpy().tolist() == [4.0 * count, 6.0 * count]
