"""What programs call before they create a strategy, and around their steps."""

import numpy as np
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
        (lambda: tf.compat.v1.gfile.Exists, "tf.io.gfile.exists"),
        (lambda: tf.compat.v1.gradients, "tf.GradientTape"),
        (lambda: tf.compat.v1.get_default_graph, "no graphs"),
        (lambda: tf.compat.v1.trainable_variables, "tf.Module"),
        (lambda: tf.compat.v1.train.MonitoredTrainingSession, "mirrax.train.resumable"),
        (lambda: tf.compat.v1.train.Saver, "tf.train.CheckpointManager"),
        (lambda: tf.train.Coordinator, "threading.Event"),
        (lambda: tf.experimental.dtensor, "jax.sharding"),
    ],
)
def test_missing_names_have_advice(call, advice):
    with pytest.raises(AttributeError, match=advice):
        call()


def test_sparse_tensors_become_dense():
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
    dense = [[0, 5], [0, 0], [6, 0]]
    assert tf.sparse.to_dense(sparse).tolist() == dense
    assert tf.sparse.from_dense(dense).indices.tolist() == [[0, 1], [2, 0]]
    product = tf.sparse.sparse_dense_matmul(sparse, [[1.0], [2.0]])
    assert product.tolist() == [[10], [0], [6]]


@pytest.mark.parametrize(
    ("indices", "values", "error", "message"),
    [
        ([[0, 0], [1, 1]], [5], ValueError, r"values of shape \(1,\)"),
        ([[0, 0, 0]], [5], ValueError, r"indices of shape \(1, 3\)"),
        ([0, 1], [5, 6], ValueError, "a number for each dimension"),
        ([[0, 1]], [[5]], ValueError, r"values of shape \(1, 1\)"),
        (
            [[0, 0], [-1, 0]],
            [5, 6],
            tf.errors.InvalidArgumentError,
            r"indices\[1\] = \[-1, 0\] is out of bounds: need 0 <= index < \[2, 3\]",
        ),
        ([[0, 3]], [5], tf.errors.InvalidArgumentError, "is out of bounds"),
        ([[0, 1], [0, 1]], [5, 6], tf.errors.InvalidArgumentError, r"1\] is repeated"),
    ],
    ids=["count", "rank", "flat", "values", "negative", "outside", "repeated"],
)
def test_sparse_tensors_need_an_index_per_value(indices, values, error, message):
    with pytest.raises(error, match=message):
        tf.SparseTensor(indices, values, [2, 3])


def test_sparse_tensors_may_be_empty():
    sparse = tf.SparseTensor(np.zeros((0, 2), np.int64), [], [1, 2])
    assert tf.sparse.to_dense(sparse).tolist() == [[0, 0]]
    assert tf.sparse.from_dense(np.zeros((1, 2))).indices.shape == (0, 2)


def test_flags_are_those_of_absl():
    from absl import flags

    assert tf.compat.v1.app.flags is flags
    assert tf.compat.v1.flags is flags


def test_checkpoints_of_a_directory_are_listed(tmp_path):
    assert tf.train.get_checkpoint_state(tmp_path) is None
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    paths = [checkpoint.save(tmp_path / "ckpt") for _ in range(2)]
    state = tf.train.get_checkpoint_state(tmp_path)
    assert state.model_checkpoint_path == paths[1]
    assert state.all_model_checkpoint_paths == paths


def test_checkpoints_of_a_directory_are_listed_as_they_were_saved(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=3)
    paths = [manager.save(number) for number in (100, 99)]
    # A save that was killed leaves a folder without a manifest.
    (tmp_path / "ckpt-101").mkdir()
    state = tf.train.get_checkpoint_state(tmp_path)
    assert state.all_model_checkpoint_paths == paths


def test_images_are_resized_by_area():
    image = tf.reshape(tf.range(8.0), [2, 4, 1])
    resized = tf.image.resize(image, [1, 3], method="area")
    np.testing.assert_allclose(resized[0, :, 0], [2.25, 3.5, 4.75], 1e-6)


def test_patches_of_images_end_with_their_channels():
    images = tf.reshape(tf.range(32.0), [1, 4, 4, 2])
    sizes = [1, 2, 2, 1]
    patches = tf.image.extract_patches(images, sizes, sizes, [1, 1, 1, 1], "VALID")
    assert patches.shape == (1, 2, 2, 8)
    assert patches[0, 0, 1].tolist() == [4, 5, 6, 7, 12, 13, 14, 15]


def test_similarity_of_images():
    image = tf.reshape(tf.range(144.0) / 144, [12, 12, 1])
    same, other = tf.image.ssim(image, image, 1.0), tf.image.ssim(image, 1 - image, 1.0)
    np.testing.assert_allclose(same, 1, 1e-5)
    assert other < 0
