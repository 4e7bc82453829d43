import pytest

from mirrax import tf


def test_checkpoints_keep_variables(tmp_path):
    weight = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(weight=weight)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    weight.assign(2.0)
    checkpoint.restore(path).assert_consumed()
    assert weight.numpy() == 1
    assert tf.train.latest_checkpoint(str(tmp_path)) == path


def test_checkpoints_take_a_root(tmp_path):
    weight = tf.Variable(1.0)
    path = tf.train.Checkpoint(weight).save(str(tmp_path / "ckpt"))
    other = tf.Variable(0.0)
    tf.train.Checkpoint(other).restore(path)
    assert other.numpy() == 1


def test_managers_keep_the_newest(tmp_path):
    step = tf.Variable(0, dtype=tf.int32)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step),
        str(tmp_path),
        max_to_keep=2,
        step_counter=step,
        checkpoint_interval=2,
    )
    saved = []
    for _ in range(6):
        step.assign_add(1)
        saved.append(manager.save())
    assert [path is not None for path in saved] == [True, False] * 3
    assert manager.checkpoints == [saved[2], saved[4]]
    assert manager.save(check_interval=False) is not None


def test_managers_do_not_count_hours(tmp_path):
    with pytest.raises(NotImplementedError, match="Only the newest"):
        tf.train.CheckpointManager(
            tf.train.Checkpoint(), str(tmp_path), 1, keep_checkpoint_every_n_hours=2
        )


def test_clusters_have_jobs():
    assert tf.train.ClusterSpec({"worker": ["a:1"]}).num_tasks("worker") == 1


def test_checkpoint_keeps_the_variables_of_modules(tmp_path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = tf.Variable(1.0)
            self.layers = [tf.Variable(2.0), Inner()]

    class Inner(tf.Module):
        def __init__(self):
            super().__init__()
            self.bias = tf.Variable(3.0)

    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        model = Model()
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "ckpt"))
    for variable in model.variables:
        variable.assign(0.0)
    tf.train.Checkpoint(model=model).restore(path).assert_consumed()
    assert [float(v) for v in model.variables] == [2.0, 1.0, 3.0]


def test_a_checkpoint_can_be_looked_into(tmp_path):
    path = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).save(tmp_path / "ckpt")
    assert tf.train.list_variables(path) == [("save_counter", []), ("w", [2])]
    for name in ("w", "w/.ATTRIBUTES/VARIABLE_VALUE"):
        assert tf.train.load_variable(path, name).tolist() == [1.0, 2.0]


def test_objects_that_were_not_saved_are_found(tmp_path):
    path = tf.train.Checkpoint(w=tf.Variable([1.0])).save(tmp_path / "ckpt")
    more = tf.train.Checkpoint(w=tf.Variable([0.0]), bias=tf.Variable(1.0))
    with pytest.raises(AssertionError, match=r"no values for bias\. Make"):
        more.restore(path).assert_existing_objects_matched()
