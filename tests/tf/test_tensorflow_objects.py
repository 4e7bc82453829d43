"""Methods of TensorFlow's objects, and what programs do with them."""

import logging

import jax
import numpy as np
import pytest

import mirrax
from mirrax import tf


def mirrored():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.mark.parametrize("is_distributed", [True, False])
def test_end_of_data_in_a_function_is_out_of_range(is_distributed):
    dataset = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0, 4.0]).batch(2)
    strategy = mirrored()
    if is_distributed:
        dataset = strategy.experimental_distribute_dataset(dataset)
    iterator = iter(dataset)

    @tf.function
    def step(values):
        return strategy.run(lambda x: x + 1, args=(next(values),))

    step(iterator)
    step(iterator)
    with pytest.raises(tf.errors.OutOfRangeError, match="no more elements"):
        step(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_generators_continue_from_states():
    first = tf.random.Generator.from_seed(3)
    other = tf.random.Generator.from_state(first.state, alg="philox")
    drawn = first.normal([2]).numpy().tolist()
    assert other.normal([2]).numpy().tolist() == drawn
    other.reset(tf.random.Generator.from_seed(3).state)
    assert other.normal([2]).numpy().tolist() == drawn
    counted = [tf.random.Generator.from_key_counter(1, [2, 3]) for _ in range(2)]
    counted[1].reset_from_key_counter(1, [2, 3])
    for generator in counted:
        generator.skip(5)
    values = [generator.uniform([2]).numpy().tolist() for generator in counted]
    assert values[0] == values[1] != drawn
    with pytest.raises(ValueError, match=r"Received: shape \(5,\)"):
        first.reset(np.arange(5))


def test_seed_can_be_the_default_again():
    tf.random.set_seed(7)
    tf.random.set_seed(None)
    default = tf.random.normal([2]).numpy().tolist()
    tf.random.set_seed(0)
    assert tf.random.normal([2]).numpy().tolist() == default


@pytest.mark.parametrize(
    ("aggregation", "method", "expected"),
    [
        ("MEAN", "scatter_mul", [2.0, 1.5, 1.0]),
        ("SUM", "scatter_mul", [4.0, 3.0, 1.0]),
        ("SUM", "scatter_div", [1.0, 1 / 3, 1.0]),
        ("MEAN", "scatter_div", [2.0, 2 / 3, 1.0]),
    ],
)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_rows_of_all_replicas_scale_a_variable(
    aggregation, method, expected, is_compiled
):
    strategy = mirrored()
    with strategy.scope():
        kind = getattr(tf.VariableAggregation, aggregation)
        variable = tf.Variable([2.0, 1.0, 1.0], aggregation=kind)

    def step():
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        values = tf.reshape(tf.cast(index + 2, tf.float32), [1])
        rows = tf.IndexedSlices(values, tf.reshape(index, [1]), dense_shape=(3,))
        getattr(variable, method)(rows)

    strategy.run(tf.function(step) if is_compiled else step)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("devices", [["CPU:0"], ["CPU:0", "CPU:1"]], ids=["1", "2"])
def test_assignments_take_arguments_that_change_nothing(devices):
    with tf.distribute.MirroredStrategy(devices).scope():
        v = tf.Variable(1.0)
    ignored = {"use_locking": True, "name": "x", "read_value": False}
    v.assign(5.0, **ignored)
    v.assign_add(2.0, **ignored)
    v.assign_sub(3.0, **ignored)
    assert v.numpy() == 4.0


def test_rows_of_integers_are_divided_as_integers():
    # As TensorFlow 2.21 answers.
    variable = tf.Variable([7, -7, 2**30 + 1])
    variable.scatter_div(tf.IndexedSlices([2, 2, 3], [0, 1, 0]))
    assert variable.numpy().tolist() == [1, -3, 2**30 + 1]


def test_rows_of_a_variable_that_is_synchronized_on_read_are_refused():
    with mirrored().scope():
        on_read = tf.VariableSynchronization.ON_READ
        variable = tf.Variable([1.0], synchronization=on_read)
    with pytest.raises(NotImplementedError, match=r"`scatter_add` needs.*ON_READ"):
        variable.scatter_add(tf.IndexedSlices([2.0], [0]))


def test_slices_are_not_gathered():
    strategy, slices = mirrored(), tf.IndexedSlices([1.0], [0], dense_shape=[2])
    with pytest.raises(NotImplementedError, match=r"^gather does not support Indexed"):
        strategy.gather(slices, axis=0)

    def step():
        return tf.distribute.get_replica_context().all_gather(slices, axis=0)

    with pytest.raises(NotImplementedError, match="all_gather does not support Inde"):
        strategy.run(step)

    def gather(value):
        return tf.distribute.get_replica_context().all_gather(value, axis=0)

    with pytest.raises(NotImplementedError, match="all_gather does not support Inde"):
        strategy.run(tf.function(gather), (slices,))


def test_copies_of_a_variable_are_variables():
    strategy = mirrored()
    with strategy.scope():
        variable = tf.Variable(1.0)
    copies = strategy.experimental_local_results(variable)
    assert [isinstance(copy, tf.Variable) for copy in copies] == [True, True]
    assert not isinstance(tf.constant(1.0), tf.Variable)


def test_variables_have_the_methods_of_version_1():
    strategy = mirrored()
    with strategy.scope():
        variable = tf.Variable(1, dtype=tf.int32)
    assert variable.distribute_strategy is strategy
    assert variable.initializer is None
    assert variable.handle is variable
    variable.load(5)
    assert variable.eval() == 5
    assert variable.count_up_to(6) == 5
    with pytest.raises(tf.errors.OutOfRangeError, match="limit=6"):
        variable.count_up_to(6)


def test_structures_expand_the_parts_of_replicas():
    parts = mirrax.PerReplica((tf.constant(1.0), tf.constant(2.0)))
    assert len(tf.nest.flatten([parts, None])) == 2
    assert len(tf.nest.flatten([parts, None], expand_composites=True)) == 3
    slices = tf.IndexedSlices([1.0], [0], dense_shape=[2])
    twice = tf.nest.map_structure(lambda x: x * 2, slices, expand_composites=True)
    assert (twice.values.tolist(), twice.dense_shape.tolist()) == ([2.0], [4])
    added = tf.nest.map_structure(lambda x: x + 1, [parts], expand_composites=True)
    assert [float(x) for x in added[0].values] == [2.0, 3.0]
    with pytest.raises(ValueError, match="with 2 leaves"):
        tf.nest.pack_sequence_as(parts, [1], expand_composites=True)


def test_optional_elements_describe_themselves():
    iterator = iter(tf.data.Dataset.range(4).batch(2))
    optional = iterator.get_next_as_optional()
    assert optional.element_spec == iterator.element_spec


def test_device_names_are_read_and_written():
    spec = tf.DeviceSpec.from_string("/job:worker/replica:0/task:1/device:gpu:2")
    assert (spec.job, spec.task, spec.device_index) == ("worker", 1, 2)
    assert spec.to_string() == "/job:worker/replica:0/task:1/device:GPU:2"
    assert tf.DeviceSpec(job="ps").make_merged_spec(spec).to_string() == (
        "/job:worker/replica:0/task:1/device:GPU:2"
    )
    assert spec.replace(task=3).task == 3
    assert tf.DeviceSpec.from_string("GPU").to_string() == "/device:GPU:*"
    with pytest.raises(ValueError, match="Received: '/nothing'"):
        tf.DeviceSpec.from_string("/nothing")
    with pytest.raises(ValueError, match="Received: '/nothing:1'"):
        tf.DeviceSpec.from_string("/nothing:1")
    parsed = tf.DeviceSpec(job="ps").parse_from_string("/cpu:1")
    assert parsed.to_string() == "/device:CPU:1"
    assert tf.DeviceSpec.from_string("gpu").to_string() == "/device:GPU:*"


@pytest.mark.parametrize("name", ["cpu", "/CPU", tf.DeviceSpec(device_type="cpu")])
def test_device_without_a_number_is_the_first(name):
    with tf.device(name):
        assert tf.constant(1).device == jax.devices("cpu")[0]


def test_devices_of_tensors_are_names():
    name = "/job:localhost/replica:0/task:0/device:CPU:0"
    tensor = tf.constant(1.0)
    assert tensor.device == name
    assert str(tensor.device) == name
    assert tensor.device == jax.devices()[0]
    assert tensor.backing_device == name
    assert tf.DeviceSpec.from_string(tensor.device).device_type == "CPU"
    element = next(iter(tf.data.Dataset.range(1)))
    assert element.device == element.backing_device == name
    seen = []
    tf.function(lambda x: seen.append(x.device))(tensor)
    assert seen == [""]


def test_names_have_their_places():
    assert tf.dtypes.cast(1.5, tf.int32) == 1
    assert tf.TensorShape(5) == (5,)
    assert tf.io.FixedLenFeature(1, tf.float32).shape == (1,)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})
    )
    spec = resolver.cluster_spec().as_cluster_def()
    assert spec.job[0].name == "worker"
    assert spec.job[0].tasks == {0: "a:1", 1: "b:1"}


def test_python_functions_are_decorated():
    @tf.py_function(Tout=tf.float32)
    def double(x):
        return 2 * x.numpy()

    @tf.numpy_function(Tout=tf.float32)
    def triple(x):
        return 3 * x

    assert double(tf.constant(2.0)) == 4
    assert triple(tf.constant(2.0)) == 6


def test_strategies_are_extended_from_one_of_them():
    class Own(tf.distribute.Strategy):
        def __init__(self):
            super().__init__(extended=None)

    with pytest.raises(NotImplementedError, match=r"Received: Own.*cross_device_ops"):
        Own()

    class Derived(tf.distribute.MirroredStrategy):
        pass

    assert isinstance(Derived(["CPU:0"]), tf.distribute.Strategy)


def test_many_shapes_are_reported_early(caplog):
    @tf.function
    def total(x):
        return tf.reduce_sum(x)

    with caplog.at_level(logging.WARNING):
        for size in range(1, 12):
            total(tf.ones([size]))
    (early, _) = caplog.records
    assert "total is compiled for 5 kinds of arguments" in early.getMessage()
    assert "bucket_by_sequence_length" in early.getMessage()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda s: s + "!", [b"a!", b"b!"]),
        (lambda s: s == "a", [True, False]),
        (lambda s: tf.equal(s, "a"), [True, False]),
        (lambda s: tf.not_equal(s, "a"), [False, True]),
    ],
    ids=["add", "same", "equal", "not_equal"],
)
def test_strings_are_used_in_map(function, expected):
    dataset = tf.data.Dataset.from_tensor_slices(["a", "b"]).map(function)
    assert [x.numpy() for x in dataset] == expected


def test_tables_are_read_on_the_host(tmp_path):
    filled = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    table = tf.lookup.StaticHashTable(filled, default_value=-1)
    dataset = tf.data.Dataset.from_tensor_slices(["b", "z"]).map(table.lookup)
    assert [int(x) for x in dataset] == [2, -1]
    assert table[["a"]].numpy().tolist() == [1]
    assert table.size().numpy() == 2
    path = tmp_path / "words"
    path.write_text("x\ny\n")
    index = tf.lookup.TextFileIndex
    lines = tf.lookup.TextFileInitializer(
        str(path), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
    )
    words = tf.lookup.StaticVocabularyTable(lines, num_oov_buckets=2)
    assert words.lookup(["y", "x"]).numpy().tolist() == [1, 0]
    assert words.lookup("other").numpy() in (2, 3)
    assert words.size().numpy() == 4


def test_table_in_a_function_is_read_by_python_on_each_call(caplog):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)

    @tf.function
    def add(keys):
        table.insert(keys, 2 * keys)
        return table.lookup(keys), table.size()

    found, size = add(tf.constant([1, 2]))
    assert found.numpy().tolist() == [2, 4]
    assert size.numpy() == 2
    assert "A table is read on the host" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.insert([0], [1]), "empty_key"),
        (lambda t: t.insert([1, 2], [1]), "a value for each key"),
        (lambda t: t.lookup(3), None),
    ],
    ids=["reserved", "lengths", "unknown"],
)
def test_dense_table_checks_its_keys(change, message):
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.int64, default_value=-1, empty_key=0, deleted_key=-1
    )
    if message is None:
        assert change(table).numpy() == -1
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        change(table)


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.lookup([2**32]),
        lambda t: t.lookup(np.uint32([2**32 - 1])),
        lambda t: t.insert([1], [2**32]),
        lambda t: t.remove([2**32]),
        lambda t: t.lookup([5], dynamic_default_values=[2**32]),
    ],
    ids=["lookup", "unsigned", "insert", "remove", "default"],
)
def test_table_refuses_numbers_that_do_not_fit_its_dtype(use):
    table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, -1)
    table.insert([0], [7])
    with pytest.raises(TypeError, match="A table of int32 takes only such"):
        use(table)
    assert table.export()[1].tolist() == [7]


def test_ragged_keys_have_no_dynamic_defaults():
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    table.insert([1], [10])
    keys = tf.ragged.constant([[1], [2, 3]])
    with pytest.raises(ValueError, match=r"must be dense. Received: .*`keys.values`"):
        table.lookup(keys, tf.ragged.constant([[7], [8, 9]]))
    assert table.lookup(keys.values, [7, 8, 9]).tolist() == [10, 8, 9]


def test_device_that_is_absent_leaves_the_default_one():
    with tf.device("/GPU:0"):
        assert tf.constant([1.0]).device in jax.devices()


def test_version_1_names_lead_to_version_2():
    v1 = tf.compat.v1
    assert v1.log(1.0) == 0
    assert v1.random_uniform([2]).shape == (2,)
    assert v1.matrix_inverse([[2.0]]).tolist() == [[0.5]]
    assert v1.to_float(1).dtype == tf.float32
    assert v1.gfile is tf.io.gfile
    variable = tf.Variable(1.0)
    v1.assign_add(variable, 2.0)
    assert variable.numpy() == 3
    with pytest.raises(SystemExit):
        v1.app.run(len, ["a"])
    with pytest.raises(AttributeError, match="placeholder"):
        _ = v1.placeholder


def test_random_numbers_of_numpy_take_its_parameters():
    random = tf.experimental.numpy.random
    random.seed(3)
    first = random.randn(2, 3)
    random.seed(3)
    assert np.array_equal(first, random.randn(2, 3))
    shapes = [
        random.rand(2),
        random.randn(),
        random.standard_normal([2, 1]),
        random.random(3),
        random.uniform([1.0, 2.0], 3.0),
        random.uniform(2.0, 3.0, [2, 2]),
        random.poisson(3.0, [2]),
        random.randint(3, size=[4]),
    ]
    assert [x.shape for x in shapes] == [
        (2,), (), (2, 1), (3,), (2,), (2, 2), (2,), (4,)
    ]  # fmt: skip
    assert random.randint(5, 6, [2]).tolist() == [5, 5]
    assert 2 <= float(random.uniform(2.0, 3.0)) < 3
