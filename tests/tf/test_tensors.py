import jax
import numpy as np
import pytest

from mirrax import tf


def test_tensors_answer_numpy_with_a_copy():
    tensor = tf.constant([1.0, 2.0])
    copy = tensor.numpy()
    copy[0] = 9
    assert tensor.numpy().tolist() == [1, 2]


def test_devices_answer_like_the_name_of_a_device():
    device = tf.constant(1.0).device
    assert device.split("/")[-1] == "device:CPU:0"
    assert device.endswith("CPU:0")
    assert "CPU" in device


def test_tensors_are_jax_arrays():
    assert isinstance(tf.zeros([2]), jax.Array)
    assert isinstance(tf.zeros([2]), tf.Tensor)


def test_constants_keep_their_dtype_beside_others():
    assert (tf.constant(1.5) * tf.cast(tf.constant(2), tf.float16)).dtype == np.float32


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda: tf.reduce_sum([[1.0, 2.0], [3.0, 4.0]], axis=1), [3, 7]),
        (lambda: tf.reduce_mean([1.0, 3.0]), 2),
        (lambda: tf.reduce_max([1, 5, 2]), 5),
        (lambda: tf.stack([1, 2]), [1, 2]),
        (lambda: tf.concat([[1], [2]], axis=0), [1, 2]),
        (lambda: tf.range(3), [0, 1, 2]),
        (lambda: tf.cast([1.7], tf.int32), [1]),
        (lambda: tf.add_n([[1], [2], [3]]), [6]),
    ],
)
def test_functions_give_what_tensorflow_gives(result, expected):
    assert result().tolist() == expected


def test_a_per_replica_is_no_tensor():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    value = strategy.run(lambda: tf.constant(1.0))
    with pytest.raises(ValueError, match="A PerReplica is no tensor"):
        tf.reduce_sum(value)
