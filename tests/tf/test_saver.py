"""`tf.compat.v1.train.Saver`: variables are saved by their names."""

import os

import pytest

from mirrax import tf

Saver = tf.compat.v1.train.Saver


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model")


def test_variables_are_restored_by_their_names(path):
    a, b = tf.Variable(1.0, name="a"), tf.Variable([2.0], name="b")
    saved = Saver([a, b]).save(None, path, global_step=tf.Variable(7))
    assert os.path.basename(saved) == "model-7"
    others = {"b": tf.Variable([0.0]), "a": tf.Variable(0.0)}
    Saver(others).restore(None, saved)
    assert (others["a"].numpy(), others["b"].numpy()) == (1, [2])
    assert tf.train.latest_checkpoint(os.path.dirname(path)) == saved


def test_the_newest_are_kept(path):
    saver = Saver([tf.Variable(1.0, name="a")], max_to_keep=2)
    first, *kept = (saver.save(None, path, step) for step in range(3))
    assert saver.last_checkpoints == kept
    assert not tf.compat.v1.train.checkpoint_exists(first)
    assert all(map(tf.compat.v1.train.checkpoint_exists, kept))


def test_all_are_kept_without_a_limit(path):
    saver = Saver([tf.Variable(1.0, name="a")], max_to_keep=None)
    saved = [saver.save(None, path, step) for step in range(2)]
    assert saver.last_checkpoints == []
    assert all(map(tf.compat.v1.train.checkpoint_exists, saved))


def test_checkpoints_that_exist_are_taken_over(path):
    saved = Saver([tf.Variable(1.0, name="a")]).save(None, path)
    other = Saver([tf.Variable(1.0, name="a")])
    other.recover_last_checkpoints(["/no/such/file", saved])
    assert other.last_checkpoints == [saved]


def test_variables_that_were_not_saved_are_named(path):
    saved = Saver([tf.Variable(1.0, name="a")]).save(None, path)
    with pytest.raises(tf.errors.NotFoundError, match="Key b not found in checkpoint"):
        Saver([tf.Variable(1.0, name="b")]).restore(None, saved)


def test_paths_without_a_checkpoint_are_refused(path):
    with pytest.raises(ValueError, match=r"not a valid checkpoint.*Pass what"):
        Saver([tf.Variable(1.0, name="a")]).restore(None, path)


def test_variables_must_be_given():
    with pytest.raises(RuntimeError, match=r"`var_list`.*Pass `model\.variables`"):
        Saver()


def test_equal_names_are_refused():
    variables = [tf.Variable(1.0, name="a"), tf.Variable(1.0, name="a")]
    with pytest.raises(ValueError, match=r"same name: a\. Give a dict"):
        Saver(variables)
