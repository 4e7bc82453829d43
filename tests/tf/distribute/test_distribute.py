import pytest

import mirrax
from mirrax import tf


def test_results_of_a_compiled_run_are_per_replica():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    result = strategy.run(tf.function(lambda: tf.constant(3.0)))
    assert isinstance(result, mirrax.PerReplica)
    assert [part.numpy() for part in result.values] == [3, 3]


def test_results_of_one_replica_are_tensors():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    assert isinstance(strategy.run(tf.function(lambda: tf.constant(3.0))), tf.Tensor)


def test_what_a_run_gave_can_be_given_to_the_next():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        total = tf.Variable(0.0)
    double = tf.function(lambda x: 2 * x)
    summed = strategy.run(double, args=(tf.constant(2.0),))
    strategy.run(tf.function(lambda x: [total.assign(x)]), args=(summed,))
    assert total.numpy() == 4


@pytest.mark.parametrize(
    ("make", "is_v2"),
    [
        (lambda: tf.distribute.MirroredStrategy(["CPU:0"]), True),
        (tf.distribute.get_strategy, True),
        (lambda: tf.compat.v1.distribute.MirroredStrategy(["CPU:0"]), False),
    ],
    ids=["v2", "default", "v1"],
)
def test_strategies_of_both_versions_are_told_apart(make, is_v2):
    strategy = make()
    assert isinstance(strategy, tf.distribute.Strategy) is is_v2


def test_numbers_are_part_of_a_function_as_in_tensorflow():
    traces = []
    repeat = tf.function(lambda n: traces.append(n) or tf.constant([1.0] * n))
    assert [len(repeat(n)) for n in (2, 3, 2)] == [2, 3, 2]
    assert traces == [2, 3]


def test_variables_print_as_those_of_tensorflow():
    variable = tf.Variable(1.0)
    shown = "<tf.Variable 'Variable:0' shape=() dtype=float32, numpy=1.0>"
    assert repr(variable) == shown
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        distributed = tf.Variable(1.0)
    assert repr(distributed).splitlines()[1] == f"  0: {shown},"


def test_number_of_a_replica_is_a_tensor():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def number():
        context = tf.distribute.get_replica_context()
        return int(context.replica_id_in_sync_group.numpy())

    assert strategy.run(number).values == (0, 1)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
@pytest.mark.parametrize(("op", "first"), [("SUM", 1.0), ("MEAN", 0.5)])
def test_all_reduce_of_slices_joins_the_rows(wrap, op, first):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def step():
        context = tf.distribute.get_replica_context()
        number = context.replica_id_in_sync_group
        values = tf.fill([1, 2], tf.cast(number, tf.float32) + 1.0)
        slices = tf.IndexedSlices(values, tf.reshape(number, [1]), [3, 2])
        joined, total = context.all_reduce(op, [slices, tf.constant(1.0)])
        return joined.values, joined.indices, joined.to_dense(), total

    results = wrap(lambda: strategy.run(step))()
    values, indices, dense, _ = (part.values[1].numpy().tolist() for part in results)
    assert values == [[first] * 2, [2 * first] * 2]
    assert indices == [0, 1]
    assert dense == [*values, [0.0, 0.0]]


def replica_slices():
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    values = tf.fill([1, 2], tf.cast(number, tf.float32) + 1.0)
    return tf.IndexedSlices(values, tf.reshape(number, [1]), tf.constant([3, 2]))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_slices_stay_slices_in_results_and_arguments(wrap):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def train():
        slices = strategy.run(wrap(replica_slices))
        doubled = strategy.run(wrap(lambda x: x.values * 2.0), (slices,))
        return slices, strategy.experimental_local_results(slices), doubled

    slices, parts, doubled = wrap(train)()
    assert [type(part) for part in parts] == [tf.IndexedSlices, tf.IndexedSlices]
    assert [part.indices.numpy().tolist() for part in parts] == [[0], [1]]
    assert strategy.experimental_local_results(slices)[1].shape == (3, 2)
    assert doubled.values[1].numpy().tolist() == [[4.0, 4.0]]


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
@pytest.mark.parametrize("how", ["reduce", "reduce_to", "merge_call"])
def test_slices_are_reduced_as_dense_tensors(wrap, how):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def to_first(strategy, slices):
        return strategy.extended.reduce_to("SUM", slices, "CPU:0")

    def merged():
        context = tf.distribute.get_replica_context()
        return context.merge_call(to_first, (replica_slices(),))

    calls = {
        "reduce": lambda: strategy.reduce("SUM", strategy.run(replica_slices), None),
        "reduce_to": lambda: to_first(strategy, strategy.run(replica_slices)),
        "merge_call": lambda: strategy.experimental_local_results(strategy.run(merged)),
    }
    result = wrap(calls[how])()
    result = result[0] if how == "merge_call" else result
    assert result.numpy().tolist() == [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]


def test_a_central_strategy_names_the_device_of_its_variables():
    central = tf.distribute.experimental.CentralStorageStrategy
    extended = central(["CPU:0", "CPU:1"], "CPU:0").extended
    assert len(extended.worker_devices) == 2
    assert [name[-5:] for name in extended.parameter_devices] == ["CPU:0"]
