import os
import subprocess
import sys

import numpy as np
import pytest

import mirrax
from mirrax import tf

v1 = tf.compat.v1


@pytest.fixture
def strategy():
    return v1.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def test_extended_is_that_of_both_versions(strategy):
    assert isinstance(strategy.extended, v1.distribute.StrategyExtended)
    assert isinstance(strategy.extended, tf.distribute.StrategyExtended)
    one = v1.distribute.experimental.CentralStorageStrategy(["CPU:0"])
    assert len(one.extended.parameter_devices) == 1


@pytest.mark.parametrize("shape", [(2,), (3,), (1,), (1, 2), (1, 1, 1)], ids=str)
def test_losses_refuse_weights_of_another_rank_or_size(shape):
    with pytest.raises(ValueError, match="weights can not be broadcast to values"):
        v1.losses.absolute_difference(
            tf.ones([2, 3]), tf.zeros([2, 3]), weights=tf.ones(shape)
        )
    with pytest.raises(ValueError, match="weights can not be broadcast to values"):
        v1.losses.sparse_softmax_cross_entropy(
            [1, 0, 1, 2], tf.zeros([4, 3]), weights=tf.ones([*shape, 2])
        )


@pytest.mark.parametrize("shape", [(), (2, 1), (1, 3), (2, 3)], ids=str)
def test_losses_take_weights_of_their_rank(shape):
    loss = v1.losses.absolute_difference(
        tf.ones([2, 3]), tf.zeros([2, 3]), weights=tf.ones(shape)
    )
    assert float(loss) == 1.0


def test_extended_makes_datasets_of_arrays(strategy):
    dataset = strategy.extended.experimental_make_numpy_dataset([[1, 2], [3, 4]])
    assert [x.tolist() for x in dataset.as_numpy_iterator()] == [[1, 2], [3, 4]]


def test_steps_on_an_iterator_keep_the_last_output(strategy):
    with strategy.scope():
        iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(8).batch(4))

        def replica_step(context, x):
            total = tf.reduce_sum(x)
            context.set_last_step_output("sum", total, tf.distribute.ReduceOp.SUM)
            context.set_non_tensor_output("kind", "step")

        def step(context, x):
            strategy.extended.call_for_each_replica(replica_step, (context, x))

        context = strategy.extended.experimental_run_steps_on_iterator(
            step, iterator, iterations=2
        )
    assert context.last_step_outputs["sum"].numpy() == 22
    assert context.non_tensor_outputs["kind"] == ("step",)
    assert context.run_op is None


def test_strategies_of_version_2_reduce_the_outputs_of_steps():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(4).batch(4))

    def step(context, x):
        total = strategy.run(tf.reduce_sum, (x,))
        context.set_last_step_output("sum", total, tf.distribute.ReduceOp.SUM)

    context = strategy.extended.experimental_run_steps_on_iterator(step, iterator)
    assert context.last_step_outputs["sum"].numpy() == 6


def test_config_proto_is_a_record():
    config = v1.ConfigProto(gpu_options=v1.GPUOptions(allow_growth=True))
    config.experimental.collective_group_leader = "/job:worker"
    config.allow_soft_placement = True
    assert config.gpu_options.allow_growth
    assert v1.ConfigProto() == v1.ConfigProto()
    assert config != v1.ConfigProto()


def test_config_proto_becomes_settings_of_jax():
    config = v1.ConfigProto(
        intra_op_parallelism_threads=1,
        gpu_options=v1.GPUOptions(
            allow_growth=True,
            per_process_gpu_memory_fraction=0.5,
            visible_device_list="0,2",
        ),
    )
    assert config.environment("--xla_x") == {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5",
        "CUDA_VISIBLE_DEVICES": "0,2",
        "XLA_FLAGS": "--xla_x --xla_cpu_multi_thread_eigen=false",
    }


def test_config_proto_takes_effect_at_start_up():
    program = (
        "import os, mirrax.tf as tf; v1 = tf.compat.v1\n"
        "config = v1.ConfigProto(device_count={'CPU': 3})\n"
        "config.gpu_options.allow_growth = True\n"
        "v1.enable_eager_execution(config)\n"
        "print(v1.distribute.MirroredStrategy().num_replicas_in_sync,"
        " os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'])"
    )
    environment = {**os.environ, "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=240,
    )
    assert done.stdout.split() == ["3", "false"]


def test_configuring_a_strategy_after_start_up_says_so(strategy):
    with pytest.raises(RuntimeError, match="cannot be modified after being init"):
        strategy.configure(v1.ConfigProto(device_count={"CPU": 77}))


def test_graphs_are_refused_with_advice():
    with pytest.raises(NotImplementedError, match=r"no graphs.*tf.function"):
        v1.disable_eager_execution()
    with pytest.raises(NotImplementedError, match=r"no `tf.compat.v1.Session`. Use"):
        v1.Session()
    assert v1.executing_eagerly()
    assert v1.global_variables_initializer() is None


def test_train_has_what_is_the_same_in_version_2():
    assert v1.train.ClusterSpec is tf.train.ClusterSpec
    assert v1.train.latest_checkpoint is tf.train.latest_checkpoint
    with pytest.raises(AttributeError, match=r"v1.train.AdagradDAOptimizer.*Optax"):
        _ = v1.train.AdagradDAOptimizer


def test_optimizer_differentiates_by_what_it_is_given_also_if_not_trainable():
    fixed = tf.Variable(3.0, trainable=False)
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    ((gradient, _),) = optimizer.compute_gradients(lambda: fixed * fixed, [fixed])
    assert float(gradient) == 6.0


def test_slots_of_an_optimizer_are_restored_before_they_are_created(tmp_path):
    def step(optimizer, variable):
        optimizer.apply_gradients([(tf.constant([1.0]), variable)])
        return float(variable[0])

    first, weight = v1.train.MomentumOptimizer(1.0, 0.5), tf.Variable([0.0])
    assert step(first, weight) == -1.0
    path = v1.train.Checkpoint(optimizer=first, weight=weight).save(tmp_path / "c")
    second, other = v1.train.MomentumOptimizer(1.0, 0.5), tf.Variable([0.0])
    v1.train.Checkpoint(optimizer=second, weight=other).restore(path)
    assert step(second, other) == step(first, weight) == -2.5


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda t: t.AdadeltaOptimizer(0.5), [0.99932, 2.00068]),
        (lambda t: t.AdadeltaOptimizer(1.0, 0.5, 1e-2), [0.53658, 2.4791]),
        (lambda t: t.FtrlOptimizer(0.5), [-0.55101, 2.50272]),
        (
            lambda t: t.FtrlOptimizer(
                0.5, l1_regularization_strength=0.1, l2_regularization_strength=0.2
            ),
            [-0.402, 2.09179],
        ),
        (
            lambda t: t.FtrlOptimizer(
                0.5, -0.3, 0.5, l2_shrinkage_regularization_strength=0.1
            ),
            [-0.67827, 1.40897],
        ),
        (lambda t: t.FtrlOptimizer(0.5, beta=1.0), [-0.25501, 1.34444]),
    ],
    ids=[
        "adadelta",
        "adadelta_rho",
        "ftrl",
        "ftrl_l1_l2",
        "ftrl_shrinkage",
        "ftrl_beta",
    ],
)
def test_optimizers_take_tensorflows_steps(make, expected):
    variable, optimizer = tf.Variable([1.0, 2.0]), make(v1.train)
    for _ in range(3):
        optimizer.apply_gradients([(tf.constant([0.5, -1.0]), variable)])
    assert variable.numpy() == pytest.approx(expected, abs=1e-5)


def test_variable_scopes_prefix_names(strategy):
    with strategy.scope(), v1.variable_scope("main") as main:
        with v1.variable_scope(None, "layer", reuse=v1.AUTO_REUSE):
            assert v1.get_variable("v", [1]).name == "main/layer/v:0"
            with v1.variable_scope(main):
                assert tf.Variable(1.0, name="w").name == "main/w:0"
        created = strategy.run(lambda: v1.get_variable("u", [1]))
        assert created.name == "main/u:0"


@pytest.mark.parametrize("options", [{"reuse": True}, {"initializer": tf.zeros}])
def test_variable_scopes_share_nothing(options):
    with pytest.raises(NotImplementedError, match=r"Received: (reuse|initializer)"):
        v1.variable_scope("main", **options).__enter__()


def test_division_of_version_1():
    assert v1.div(7, 2) == 3
    assert v1.div(7.0, 2) == 3.5


def test_dropout_of_version_1_takes_what_is_kept():
    nn = tf.compat.v1.nn
    for dropped in (
        nn.dropout(tf.ones([1000]), 0.9),
        nn.dropout(tf.ones([1000]), rate=0.1),
    ):
        assert 800 < np.count_nonzero(dropped) < 980
    np.testing.assert_array_equal(nn.dropout(tf.ones([9]), 1), np.ones(9))
    np.testing.assert_array_equal(tf.nn.dropout(tf.ones([9]), 0), np.ones(9))
    with pytest.raises(ValueError, match="Received: keep_prob=None, rate=None"):
        nn.dropout(tf.ones([2]))
    assert nn.relu is tf.nn.relu


_SCATTERED = {"add": 4, "div": 1, "max": 2, "min": 2, "mul": 4, "sub": 0, "update": 2}


@pytest.mark.parametrize(("name", "expected"), _SCATTERED.items())
def test_scatter_functions_change_rows(name, expected):
    variable = tf.Variable([2.0, 2.0])
    getattr(tf.compat.v1, f"scatter_{name}")(variable, [0], [2])
    assert variable.numpy().tolist() == [expected, 2]


def test_values_are_computed_in_a_colocation():
    v = tf.Variable(2.0)
    with v1.colocate_with(v, ignore_existing=True):
        assert float(v * 3) == 6.0


def test_default_strategy_has_the_methods_of_version_1():
    strategy = v1.distribute.get_strategy()
    assert not isinstance(mirrax.get_strategy(), type(strategy))
    iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(4).batch(2))
    sums = [strategy.experimental_run(tf.reduce_sum, iterator) for _ in range(2)]
    assert [int(x) for x in sums] == [1, 5]
    assert strategy.unwrap(3) == (3,)
    assert strategy.update_config_proto(v1.ConfigProto()) == v1.ConfigProto()
    assert strategy is tf.distribute.get_strategy()
    assert strategy.run(tf.distribute.get_strategy) is strategy
    assert strategy.run(tf.distribute.has_strategy) is False
    total = strategy.run(
        lambda: tf.distribute.get_replica_context().all_reduce("SUM", 2)
    )
    assert total == 2
    assert tf.distribute.get_replica_context().strategy is strategy
    assert tf.distribute.get_replica_context().merge_call(lambda s: s is strategy)


def test_records_are_read_without_a_dataset(tmp_path):
    path = str(tmp_path / "records")
    kinds = v1.python_io.TFRecordCompressionType
    for options in (None, v1.io.TFRecordOptions(kinds.GZIP)):
        with v1.python_io.TFRecordWriter(path, options) as writer:
            writer.write(b"a")
            writer.write(b"b")
        assert list(v1.io.tf_record_iterator(path, options)) == [b"a", b"b"]


def test_shapes_and_types_of_elements_are_nested_as_they_are():
    arrays = {"a": np.zeros((4, 2), np.float32), "b": np.arange(4)}
    dataset = tf.data.Dataset.from_tensor_slices(arrays).batch(2)
    for described in (dataset, iter(dataset)):
        assert v1.data.get_output_shapes(described) == {"a": (None, 2), "b": (None,)}
        types = {"a": tf.float32, "b": tf.int64}
        assert v1.data.get_output_types(described) == types
    sparse = tf.data.Dataset.range(2).map(lambda x: tf.sparse.from_dense([1.0, 0.0]))
    assert v1.data.get_output_shapes(sparse) == [2]
    assert v1.data.get_output_types(sparse) == tf.float32
