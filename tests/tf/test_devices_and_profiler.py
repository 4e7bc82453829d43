"""What programs call before they create a strategy, and around their steps."""

import pytest

from mirrax import tf


def test_tpu_preamble_leads_to_the_default_strategy():
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except ValueError:
        strategy = tf.distribute.get_strategy()
    assert strategy.num_replicas_in_sync == 1


def test_machine_without_gpus_says_so():
    assert not tf.test.is_gpu_available()
    assert tf.test.gpu_device_name() == ""
    assert not tf.test.is_built_with_cuda()


def test_profiler_writes_a_trace(tmp_path):
    tf.profiler.experimental.start(str(tmp_path))
    with tf.profiler.experimental.Trace("train", step_num=1, _r=1):
        tf.ones([2])
    tf.profiler.experimental.stop()
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_dense_features_stay_dense():
    x = tf.ones([2])
    assert tf.sparse.to_dense(x) is x


def test_custom_strategy_of_tensorflows_kind_says_how_to_extend():
    class Custom(tf.distribute.Strategy):
        def __init__(self):
            super().__init__(tf.distribute.StrategyExtended(self))

    with pytest.raises(NotImplementedError, match=r"Derive it from `tf.distribute.Mir"):
        Custom()
    extended = tf.distribute.MirroredStrategy(["CPU:0"]).extended
    assert isinstance(extended, tf.distribute.StrategyExtended)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: tf.compat.v1.app.flags, "absl.flags"),
        (lambda: tf.compat.v1.gfile.Exists, "tf.io.gfile.exists"),
        (lambda: tf.compat.v1.gradients, "tf.GradientTape"),
        (lambda: tf.compat.v1.get_default_graph, "no graphs"),
        (lambda: tf.compat.v1.trainable_variables, "tf.Module"),
        (lambda: tf.compat.v1.train.MonitoredTrainingSession, "mirrax.train.resumable"),
        (lambda: tf.experimental.dtensor, "jax.sharding"),
    ],
)
def test_missing_names_have_advice(call, advice):
    with pytest.raises(AttributeError, match=advice):
        call()
