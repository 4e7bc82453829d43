import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
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


def test_the_attributes_of_a_root_are_saved_as_if_given_by_name(tmp_path):
    root = tf.Module()
    root.v, w = tf.Variable(1.0), tf.Variable(2.0)
    path = tf.train.Checkpoint(root, w=w).save(str(tmp_path / "ckpt"))
    other = tf.Module()
    other.w, v = tf.Variable(0.0), tf.Variable(0.0)
    tf.train.Checkpoint(other, v=v).restore(path).assert_consumed()
    assert (v.numpy(), other.w.numpy()) == (1, 2)
    assert tf.train.Checkpoint(root, v=root.v).save(str(tmp_path / "again"))
    late = tf.Module()
    tf.train.Checkpoint(late).restore(path)
    late.w = tf.Variable(0.0)
    assert late.w.numpy() == 2
    with pytest.raises(ValueError, match=r"root\.v already exists"):
        tf.train.Checkpoint(root, v=v)


def test_version_1_has_the_functions_of_checkpoints(tmp_path):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "ckpt"))
    train = tf.compat.v1.train
    assert train.checkpoint_exists(path)
    assert not train.checkpoint_exists(str(tmp_path / "other"))
    assert train.get_checkpoint_state(str(tmp_path)).model_checkpoint_path == path


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
    assert [path[-6:] for path in saved[::2]] == ["ckpt-1", "ckpt-2", "ckpt-3"]
    assert manager.checkpoint_interval == 2
    assert manager.save(check_interval=False) is not None
    assert manager.save(check_interval=False) is None
    step.assign(0)
    assert manager.save(check_interval=False) is not None


def test_managers_count_the_interval_from_what_they_restored(tmp_path):
    step = tf.Variable(6, dtype=tf.int32)
    checkpoint = tf.train.Checkpoint(step=step)
    make = lambda: tf.train.CheckpointManager(  # noqa: E731
        checkpoint, str(tmp_path), 2, step_counter=step, checkpoint_interval=3
    )
    make().save()
    manager = make()
    manager.restore_or_initialize()
    step.assign_add(2)
    assert manager.save() is None
    step.assign_add(1)
    assert manager.save() is not None


def test_managers_need_a_counter_for_an_interval(tmp_path):
    with pytest.raises(ValueError, match="checkpoint_interval=2 alone"):
        tf.train.CheckpointManager(
            tf.train.Checkpoint(), str(tmp_path), 1, checkpoint_interval=2
        )


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
    suffix = "/.ATTRIBUTES/VARIABLE_VALUE"
    expected = [(f"save_counter{suffix}", []), (f"w{suffix}", [2])]
    assert tf.train.list_variables(path) == expected
    for name in ("w", "w/.ATTRIBUTES/VARIABLE_VALUE"):
        assert tf.train.load_variable(path, name).tolist() == [1.0, 2.0]


def test_objects_that_were_not_saved_are_found(tmp_path):
    path = tf.train.Checkpoint(w=tf.Variable([1.0])).save(tmp_path / "ckpt")
    more = tf.train.Checkpoint(w=tf.Variable([0.0]), bias=tf.Variable(1.0))
    with pytest.raises(AssertionError, match=r"no values for bias\. Make"):
        more.restore(path).assert_existing_objects_matched()


class Late(tf.Module):
    """A module that makes its variable at its first call."""

    def __init__(self):
        super().__init__()
        self.weight = None
        self.layers = []
        self.named = {}

    def __call__(self, x):
        if self.weight is None:
            self.weight = tf.Variable(0.0)
        return x * self.weight


@pytest.fixture
def late(tmp_path):
    """A checkpoint of a module with everything, and a new module without."""
    saved = Late()
    saved(1.0)
    saved.weight.assign(7.0)
    saved.layers.append(tf.Variable(3.0))
    saved.named["a"] = tf.Variable(4.0)
    saved.inner = Late()
    saved.inner(1.0)
    saved.inner.weight.assign(8.0)
    path = tf.train.Checkpoint(net=saved).save(tmp_path / "ckpt")
    module = Late()
    return module, tf.train.Checkpoint(net=module).restore(path)


@pytest.mark.parametrize("decorate", [lambda fn: fn, tf.function], ids=["e", "c"])
@pytest.mark.parametrize("num_replicas", [None, 1, 2])
def test_variable_of_the_first_call_is_restored(late, decorate, num_replicas):
    module, status = late
    with pytest.raises(AssertionError, match=r"net/weight"):
        status.assert_consumed()
    if num_replicas is None:
        assert float(decorate(module)(1.0)) == 7.0
    else:
        devices = [f"CPU:{index}" for index in range(num_replicas)]
        strategy = tf.distribute.MirroredStrategy(devices)
        answer = strategy.run(decorate(module), (2.0,))
        parts = strategy.experimental_local_results(answer)
        assert [float(part) for part in parts] == [14.0] * num_replicas
    assert module.weight.numpy() == 7.0


def test_lists_dicts_and_modules_filled_later_are_restored(late):
    module, status = late
    layers = module.layers
    layers.append(tf.Variable(0.0))
    module.named = {}
    module.named["a"] = tf.Variable(0.0)
    module.inner = Late()
    assert float(layers[0]) == 3.0
    assert float(module.named["a"]) == 4.0
    assert float(module.inner(1.0)) == 8.0
    module(1.0)
    status.assert_consumed()
    assert len(module.variables) == 4
    module.extra = tf.Variable(1.0)
    for check in (status.assert_consumed, status.assert_existing_objects_matched):
        with pytest.raises(AssertionError, match=r"no values for net/extra"):
            check()


def test_value_is_restored_once(late):
    module, _ = late
    module.weight = tf.Variable(0.0)
    assert module.weight.numpy() == 7.0
    module.weight = tf.Variable(1.0)
    assert module.weight.numpy() == 1.0


def test_later_variable_of_another_shape_is_refused(late):
    module, _ = late
    with pytest.raises(ValueError, match=r"'net/weight' has shape \(2,\)"):
        module.weight = tf.Variable([0.0, 0.0])


def test_list_that_the_program_holds_is_saved_too(late, tmp_path):
    path = tf.train.latest_checkpoint(tmp_path)
    module = Late()
    held = module.layers
    checkpoint = tf.train.Checkpoint(net=module)
    checkpoint.restore(path)
    held.append(tf.Variable(0.0))
    again = checkpoint.save(tmp_path / "again")
    assert tf.train.load_variable(again, "net/layers/0") == 3.0


def test_subclass_of_checkpoint_has_variables_of_its_own(tmp_path):
    class Unprepared(tf.train.Checkpoint):
        def __init__(self):
            self._v = tf.Variable(1.0)

    assert float(Unprepared()._v) == 1.0

    class Run(tf.train.Checkpoint):
        def __init__(self):
            super().__init__()
            self._note = object()
            self._weight = tf.Variable(5.0)

    run = Run()
    run._weight.assign(6.0)
    path = run.save(tmp_path / "ckpt")
    other = Run()
    other.restore(path).assert_consumed()
    assert other._weight.numpy() == 6.0


def test_objects_without_state_are_refused():
    for value in (object(), lambda: 1, tf.data.Dataset.range(3)):
        with pytest.raises(ValueError, match=r"Received: 'x', a "):
            tf.train.Checkpoint(x=value)


def test_layer_of_a_module_is_restored_when_it_is_built(tmp_path):
    class Module(tf.Module):
        def __init__(self, units):
            super().__init__()
            self.layer = keras.layers.Dense(units)

    saved = Module(2)
    answer = saved.layer(np.ones((2, 3)))
    path = tf.train.Checkpoint(m=saved).save(tmp_path / "ckpt")
    other = Module(2)
    status = tf.train.Checkpoint(m=other).restore(path)
    np.testing.assert_array_equal(other.layer(np.ones((2, 3))), answer)
    status.assert_consumed()


@pytest.mark.parametrize("inside", [lambda g: g, lambda g: [g]], ids=["own", "list"])
def test_random_generator_goes_on_where_it_was(tmp_path, inside):
    generator = tf.random.Generator.from_seed(1)
    checkpoint = tf.train.Checkpoint(random=inside(generator))
    path = checkpoint.save(tmp_path / "ckpt")
    expected = generator.normal([2])
    checkpoint.restore(path).assert_consumed()
    np.testing.assert_array_equal(generator.normal([2]), expected)
    assert tf.train.list_variables(path)


def test_generator_of_a_module_is_saved(tmp_path):
    module = tf.Module()
    module.random = tf.random.Generator.from_seed(1)
    checkpoint = tf.train.Checkpoint(m=module)
    path = checkpoint.save(tmp_path / "ckpt")
    expected = module.random.normal([2])
    checkpoint.restore(path).assert_consumed()
    np.testing.assert_array_equal(module.random.normal([2]), expected)


def test_checkpoint_takes_options(tmp_path):
    options = tf.train.CheckpointOptions(experimental_io_device="/job:localhost")
    assert options.experimental_io_device == "/job:localhost"
    options.enable_async = True
    checkpoint = tf.train.Checkpoint(w=tf.Variable(1.0))
    path = checkpoint.save(tmp_path / "ckpt", options=options)
    checkpoint.restore(path, options=options).assert_consumed()
    checkpoint.read(checkpoint.write(tmp_path / "other", options), options)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path / "m", 1)
    assert manager.save(options=options)
    with pytest.raises(ValueError, match=r"CheckpointOptions.*Received: 'fast'"):
        checkpoint.save(tmp_path / "ckpt", options="fast")


@pytest.mark.parametrize("managed", [False, True], ids=["checkpoint", "manager"])
def test_sync_waits_for_a_background_save(tmp_path, managed):
    options = tf.train.CheckpointOptions(enable_async=True)
    saved = tf.train.Checkpoint(w=tf.Variable(tf.ones([1 << 16])))
    if managed:
        saved = tf.train.CheckpointManager(saved, tmp_path, 1)
        path = saved.save(options=options)
    else:
        path = saved.save(tmp_path / "ckpt", options)
    saved.sync()
    assert tf.train.latest_checkpoint(tmp_path) == path


def test_reader_of_a_checkpoint_has_its_tensors(tmp_path):
    weight = tf.Variable([1.0, 2.0])
    path = tf.train.Checkpoint(w=weight, i=tf.Variable(3)).save(tmp_path / "ckpt")
    reader = tf.train.load_checkpoint(path)
    name = "w/.ATTRIBUTES/VARIABLE_VALUE"
    assert reader.get_variable_to_shape_map()[name] == [2]
    assert reader.get_variable_to_dtype_map()[name] == tf.float32
    assert reader.has_tensor(name)
    assert not reader.has_tensor("x")
    assert reader.get_tensor("w").tolist() == [1.0, 2.0]
    assert b"VALUE (float32) [2]" in reader.debug_string()
    with pytest.raises(tf.errors.NotFoundError, match=r"'x'"):
        reader.get_tensor("x")
    assert tf.train.load_checkpoint(tmp_path).get_tensor("i") == 3


def test_everything_is_restored_before_the_operations_of_version_1(tmp_path):
    variable = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(v=variable)
    path = checkpoint.save(tmp_path / "ck")
    variable.assign(2.0)
    status = checkpoint.restore(path)
    assert status.run_restore_ops() is status.initialize_or_restore() is None
    assert float(variable) == 1.0


def test_checkpoints_are_yielded_as_they_appear(tmp_path):
    checkpoint = tf.train.Checkpoint(w=tf.Variable(1.0))
    path, later = str(tmp_path / "ckpt"), []

    def save_twice():
        later.append(checkpoint.save(path))
        return len(later) > 2

    first = checkpoint.save(path)
    paths = tf.train.checkpoints_iterator(tmp_path, timeout=0, timeout_fn=save_twice)
    assert list(paths) == [first, *later[:2]]
    assert not list(tf.train.checkpoints_iterator(tmp_path / "none", timeout=0))


def test_callbacks_are_called_after_a_save(tmp_path):
    calls = []
    options = tf.train.CheckpointOptions(
        experimental_write_callbacks=[calls.append, lambda: calls.append("saved")]
    )
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    first = checkpoint.save(str(tmp_path / "one"), options)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), 2)
    second = manager.save(options=options)
    assert calls == [first, "saved", second, "saved"]
    with pytest.raises(ValueError, match=r"takes the path.*has 2 parameters\. Bind"):
        tf.train.CheckpointOptions(experimental_write_callbacks=[lambda a, b: None])


def test_checkpoint_waits_for_a_save_in_the_background(tmp_path):
    weight = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(weight=weight)
    options = tf.train.CheckpointOptions(enable_async=True)
    path = checkpoint.save(str(tmp_path / "ckpt"), options)
    checkpoint.sync()
    assert tf.train.latest_checkpoint(str(tmp_path)) == path


@pytest.mark.parametrize("state", ["text", b"\xff\x00"], ids=["text", "bytes"])
def test_checkpoint_keeps_the_state_of_python_objects(tmp_path, state):
    class Kept(tf.train.experimental.PythonState):
        def serialize(self):
            return state

        def deserialize(self, string_value):
            self.restored = string_value

    kept = Kept()
    checkpoint = tf.train.Checkpoint(kept=kept)
    checkpoint.restore(checkpoint.save(str(tmp_path / "ckpt")))
    assert kept.restored == (state.encode() if isinstance(state, str) else state)


def test_averages_of_variables_need_no_correction():
    weight = tf.Variable(4.0)
    average = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    average.apply([weight])
    weight.assign(8.0)
    average.apply([weight])
    np.testing.assert_allclose(average.average(weight), 4.4, rtol=1e-6)


def test_object_of_a_checkpoint_can_be_deleted(tmp_path):
    checkpoint = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0))
    del checkpoint.a
    path = checkpoint.save(str(tmp_path / "ckpt"))
    assert not any(name.startswith("a/") for name, _ in tf.train.list_variables(path))
    with pytest.raises(AttributeError):
        del checkpoint.a


def test_errors_have_a_message():
    with pytest.raises(tf.errors.NotFoundError) as caught:
        tf.io.read_file("/no/such/file")
    assert "/no/such/file" in caught.value.message
