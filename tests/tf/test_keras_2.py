"""Names and paths of Keras 2, which programs for several workers use."""

import numpy as np
import pytest

from mirrax import tf


def small_model():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.legacy.SGD(0.5, momentum=0.9), "mse")
    return model


ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_former_names_are_available():
    from mirrax.tf.keras.callbacks.experimental import BackupAndRestore
    from mirrax.tf.keras.layers.experimental import preprocessing
    from mirrax.tf.keras.layers.experimental.preprocessing import Rescaling
    from mirrax.tf.keras.optimizers.legacy import Adam

    assert BackupAndRestore is tf.keras.callbacks.BackupAndRestore
    assert preprocessing.Rescaling is Rescaling is tf.keras.layers.Rescaling
    assert Adam is tf.keras.optimizers.Adam


def test_metrics_are_reset_under_the_former_name():
    mean = tf.keras.metrics.Mean()
    mean.update_state(3.0)
    mean.reset_states()
    assert float(mean.result()) == 0.0


def test_learning_rate_is_read_and_set_under_the_former_name():
    optimizer = small_model().optimizer
    optimizer.lr = 0.25
    optimizer.lr.assign(optimizer.lr * 2)
    assert float(optimizer.learning_rate) == 0.5


@pytest.mark.parametrize(
    ("args", "given"), [((), {}), ((True,), {}), ((), {"save_format": "tf"})], ids=str
)
def test_model_is_saved_to_a_directory(args, given, tmp_path):
    model = small_model()
    model.fit(ROWS, ROWS[:, :1], verbose=0)
    for _ in range(2):
        model.save(str(tmp_path / "model"), *args, **given)
    loaded = tf.keras.models.load_model(str(tmp_path / "model"))
    assert (tmp_path / "model").is_dir()
    np.testing.assert_array_equal(loaded(ROWS), model(ROWS))
    assert float(loaded.optimizer.lr) == 0.5


@pytest.mark.parametrize("name", ["weights", "weights.h5", "w.weights.h5"])
def test_weights_are_saved_under_any_name(name, tmp_path):
    model, other = small_model(), small_model()
    model.save_weights(str(tmp_path / name))
    other.load_weights(str(tmp_path / name))
    np.testing.assert_array_equal(other(ROWS), model(ROWS))


def test_latest_weights_are_complete_while_others_are_written(tmp_path):
    class Looks(tf.keras.layers.Dense):
        def save_own_variables(self, store):
            seen.append(tf.train.latest_checkpoint(tmp_path))
            super().save_own_variables(store)

    seen = []
    model = tf.keras.Sequential([tf.keras.Input((3,)), Looks(1)])
    for name in ("first", "second"):
        model.save_weights(tmp_path / name)
    assert seen == [None, str(tmp_path / "first")]
    (tmp_path / "removed.weights.h5").symlink_to("missing")
    assert tf.train.latest_checkpoint(tmp_path) == str(tmp_path / "second")


def test_model_checkpoint_takes_paths_without_extension(tmp_path):
    model = small_model()
    other = tf.keras.models.clone_model(model)
    saver = tf.keras.callbacks.ModelCheckpoint
    callbacks = [
        saver(str(tmp_path / "ckpt_{epoch}"), save_weights_only=True),
        saver(filepath=tmp_path / "models" / "{epoch}"),
    ]
    model.fit(ROWS, ROWS[:, :1], epochs=2, verbose=0, callbacks=callbacks)
    latest = tf.train.latest_checkpoint(tmp_path)
    assert latest == str(tmp_path / "ckpt_2")
    other.load_weights(latest)
    np.testing.assert_array_equal(other(ROWS), model(ROWS))
    loaded = tf.keras.models.load_model(tmp_path / "models" / "2")
    np.testing.assert_array_equal(loaded(ROWS), model(ROWS))


def test_devices_of_the_machine_are_listed():
    from mirrax.tf.python.client import device_lib

    kinds = [device.device_type for device in device_lib.list_local_devices()]
    assert kinds.count("CPU") == 1
