"""`tf.saved_model`: saved on either side of a scope, loaded on either side."""

import json
import subprocess
import sys
import typing

import keras
import numpy as np
import pytest

from mirrax import tf

X = np.arange(6, dtype=np.float32).reshape(3, 2)


class Inner(tf.Module):
    def __init__(self):
        super().__init__()
        self.b = tf.Variable(1.0)


class Linear(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[1.0], [2.0]])
        self.parts = [Inner()]
        self.calls = tf.Variable(0, trainable=False)

    @tf.function
    def __call__(self, x):
        return tf.matmul(x, self.w) + self.parts[0].b

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def count(self, n):
        return self.calls.assign_add(n)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model")


@pytest.fixture
def strategy():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def keras_model():
    return keras.Sequential([keras.Input((2,), name="rows"), keras.layers.Dense(1)])


def test_module_is_restored_with_functions_and_variables(path):
    module = Linear()
    expected = module(tf.constant(X))
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    np.testing.assert_array_equal(loaded(X), expected)
    assert loaded.w.numpy().tolist() == [[1.0], [2.0]]
    assert loaded.parts[0].b.numpy() == 1.0
    assert loaded.count(tf.constant(2)).numpy() == 2
    assert loaded.calls.numpy() == 2
    assert module.calls.numpy() == 0
    assert len(loaded.trainable_variables) == 2


def test_loaded_functions_take_keywords(path):
    tf.saved_model.save(Linear(), path)
    loaded = tf.saved_model.load(path)
    assert loaded.count(n=tf.constant(2)).numpy() == 2
    with pytest.raises(TypeError, match=r"missing a required argument: 'n'.*count"):
        loaded.count(m=tf.constant(2))


def test_functions_are_saved_for_the_shapes_that_they_were_called_with(path):
    module = Linear()
    module(tf.constant(X))
    module(tf.constant(X[:1]))
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert loaded(X).shape == (3, 1)
    assert loaded(X[:1]).shape == (1, 1)
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        loaded(X[:2])


class Switched(tf.Module):
    @tf.function
    def __call__(self, x, training=False, *, scale=1.0):
        return x["a"] * scale + (10.0 if training else 0.0)


@pytest.fixture
def switched(path):
    module, x = Switched(), {"a": tf.constant([1.0, 2.0])}
    module(x), module(x, training=True), module(x, scale=3.0)
    tf.saved_model.save(module, path)
    return tf.saved_model.load(path)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((), {}, [1.0, 2.0]),
        ((), {"training": False}, [1.0, 2.0]),
        ((True,), {}, [11.0, 12.0]),
        ((), {"training": True, "scale": 1.0}, [11.0, 12.0]),
        ((False,), {"scale": 3.0}, [3.0, 6.0]),
    ],
)
def test_functions_are_saved_for_the_python_values_that_they_were_called_with(
    switched, args, kwargs, expected
):
    assert switched({"a": [1.0, 2.0]}, *args, **kwargs).numpy().tolist() == expected


def test_python_values_without_a_trace_are_refused(switched):
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        switched({"a": [1.0, 2.0]}, training=True, scale=3.0)


def test_defaults_that_cannot_be_saved_are_part_of_the_program(path):
    module = tf.Module()
    module.cast = tf.function(lambda x, dtype=tf.int32: tf.cast(x, dtype))
    module.cast(tf.constant([1.5]))
    tf.saved_model.save(module, path)
    assert tf.saved_model.load(path).cast([1.5]).numpy().tolist() == [1]


def test_lists_and_dicts_are_restored(path):
    module = tf.Module()
    module.items = [3, tf.Variable(1.0), (tf.Variable(2.0),)]
    module.named = {"a": tf.Variable(3.0), "a.b": tf.Variable(4.0), "it's [0]": Inner()}
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert len(loaded.items) == 3
    assert [float(loaded.items[1]), float(loaded.items[2][0])] == [1.0, 2.0]
    assert [float(loaded.named["a"]), float(loaded.named["a.b"])] == [3.0, 4.0]
    assert float(loaded.named["it's [0]"].b) == 1.0


def test_signature_takes_names_and_returns_names(path):
    module = Linear()
    spec = tf.TensorSpec([None, 2], tf.float32)
    tf.saved_model.save(module, path, module.__call__.get_concrete_function(spec))
    serve = tf.saved_model.load(path).signatures["serving_default"]
    assert serve.structured_input_signature[1]["x"].shape == (None, 2)
    for outputs in (serve(tf.constant(X)), serve(x=tf.constant(X))):
        assert outputs["output_0"].shape == (3, 1)
    with pytest.raises(TypeError, match=r"takes \['x'\]. Received: .*\['y'\]"):
        serve(y=tf.constant(X))


def test_dict_of_signatures(path):
    module = Linear()
    spec = tf.TensorSpec([None, 2], tf.float32)
    named = tf.function(lambda x: {"twice": module(x) * 2}, input_signature=[spec])
    tf.saved_model.save(module, path, signatures={"twice": named})
    signatures = tf.saved_model.load(path).signatures
    assert list(signatures) == ["twice"]
    np.testing.assert_array_equal(
        signatures["twice"](tf.constant(X))["twice"], module(tf.constant(X)) * 2
    )


@pytest.mark.parametrize("saved_in_scope", [True, False])
def test_keras_model_is_loaded_in_a_scope_and_run_on_replicas(
    path, strategy, saved_in_scope
):
    if saved_in_scope:
        with strategy.scope():
            model = keras_model()
    else:
        model = keras_model()
    tf.saved_model.save(model, path)
    other = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with other.scope():
        loaded = tf.saved_model.load(path)
    assert len(loaded.variables[0].values) == 2
    serve = loaded.signatures[tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(3)
    for batch in other.experimental_distribute_dataset(dataset):
        outputs = other.run(serve, args=(batch,))
        found = other.gather(outputs["output_0"], axis=0)
    np.testing.assert_allclose(found, model.predict(X, verbose=0), rtol=1e-6)


class Doubled(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x) * 2

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def serve(self, x):
        return {"scores": self(x)}


def test_subclassed_keras_model_is_saved_with_its_functions_before_a_call(path):
    model = Doubled()
    tf.saved_model.save(model, path)
    loaded = tf.saved_model.load(path)
    np.testing.assert_allclose(loaded(X), model(X), rtol=1e-6)
    np.testing.assert_allclose(loaded.serve(X)["scores"], model(X), rtol=1e-6)


def test_subclassed_keras_model_is_saved_with_a_signature_before_a_call(path):
    model = Doubled()
    spec = tf.TensorSpec([None, 2], tf.float32)
    call = tf.function(lambda x: model(x, training=False)).get_concrete_function(spec)
    tf.saved_model.save(model, path, signatures=call)
    serve = tf.saved_model.load(path).signatures["serving_default"]
    assert serve.structured_outputs["output_0"].shape == (None, 1)
    np.testing.assert_allclose(serve(x=X)["output_0"], model(X), rtol=1e-6)


def make_inputs(kind):
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    return {"a": a, "b": b} if kind is dict else [a, b]


@pytest.mark.parametrize("kind", [dict, list])
def test_keras_model_with_several_inputs_is_loaded(path, kind):
    inputs = make_inputs(kind)
    model = keras.Model(inputs, keras.layers.Add()(keras.tree.flatten(inputs)))
    given = {"a": X, "b": X + 1} if kind is dict else [X, X + 1]
    tf.saved_model.save(model, path)
    loaded = tf.saved_model.load(path)
    np.testing.assert_array_equal(loaded(given), 2 * X + 1)
    outputs = loaded.signatures["serving_default"](a=X, b=X + 1)
    np.testing.assert_array_equal(outputs["output_0"], 2 * X + 1)


def test_subclassed_keras_model_that_takes_a_dict_is_loaded(path):
    class Sum(keras.Model):
        def call(self, inputs):
            return inputs["a"] + inputs["b"]

    model = Sum()
    model({"a": X, "b": X})
    tf.saved_model.save(model, path)
    loaded = tf.saved_model.load(path)
    np.testing.assert_array_equal(loaded({"a": X, "b": X}), 2 * X)


def test_keras_export_is_loaded(path):
    model = keras_model()
    model.export(path, verbose=False)
    loaded = tf.saved_model.load(path)
    expected = model.predict(X, verbose=0)
    np.testing.assert_allclose(loaded.serve(X), expected, rtol=1e-6)
    outputs = loaded.signatures["serving_default"](rows=X)
    np.testing.assert_allclose(outputs["output_0"], expected, rtol=1e-6)


def test_keras_export_takes_a_signature(path):
    model = keras_model()
    spec = tf.TensorSpec([5, 2], tf.float32)
    model.export(path, verbose=False, input_signature=[spec])
    assert tf.saved_model.load(path).serve.input_signature[0].shape == (5, 2)
    with pytest.raises(ValueError, match=r"Received: \['opset_version'\]"):
        model.export(path, opset_version=3)


def test_saving_twice_saves_the_same_functions(path):
    module = Linear()
    module(tf.constant(X))
    for _ in range(2):
        tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert loaded.__dict__["__call__"].input_signature[0].shape == (3, 2)


def test_a_loaded_model_is_saved_again(path):
    module = Linear()
    module(tf.constant(X)), module(tf.constant(X[:2]))
    module.power = tf.function(lambda x, n=2: x**n)
    module.power(tf.constant(3.0))
    tf.saved_model.save(module, path, signatures=module.count)
    loaded = tf.saved_model.load(path)
    loaded.w.assign([[3.0], [4.0]])
    tf.saved_model.save(loaded, path, signatures=loaded.signatures)
    again = tf.saved_model.load(path)
    np.testing.assert_array_equal(again(tf.constant(X)), X @ [[3.0], [4.0]] + 1)
    np.testing.assert_array_equal(again(tf.constant(X[:2])), X[:2] @ [[3], [4]] + 1)
    assert again.power(tf.constant(3.0)).numpy() == 9
    assert [v.shape for v in again.variables] == [v.shape for v in loaded.variables]
    served = again.signatures["serving_default"](n=tf.constant(2))
    assert served["output_0"].numpy() == again.calls.numpy() == 2

    # Also as a part of another module.
    outer = tf.Module()
    outer.inner = again
    tf.saved_model.save(outer, path)
    assert tf.saved_model.load(path).inner.count(tf.constant(1)).numpy() == 3


def test_concrete_functions_are_saved(path):
    module = tf.Module()
    double = tf.function(lambda x: 2 * x)
    module.double = double.get_concrete_function(tf.TensorSpec([], tf.float32))
    tf.saved_model.save(module, path)
    assert tf.saved_model.load(path).double(tf.constant(3.0)).numpy() == 6
    assert tf.saved_model.load(path).double(x=tf.constant(3.0)).numpy() == 6


def test_functions_are_saved_for_what_a_concrete_function_was_made_for(path):
    module = Linear()
    module.power = tf.function(lambda x, n: x**n)
    module.power.get_concrete_function(tf.TensorSpec([], tf.float32), 3)
    module.__call__.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert loaded.power(tf.constant(2.0), 3).numpy() == 8
    np.testing.assert_array_equal(loaded(tf.constant(X[:1])), X[:1] @ [[1], [2]] + 1)


def test_a_saved_attribute_may_be_called_variables(path):
    checkpoint = tf.train.Checkpoint(variables=[tf.Variable(1.0)], v=tf.Variable(2.0))
    tf.saved_model.save(checkpoint, path)
    loaded = tf.saved_model.load(path)
    assert [v.numpy() for v in loaded.variables] == [1]
    assert len(loaded.trainable_variables) == 2


def test_functions_of_a_checkpoint_are_saved(path):
    exported = tf.train.Checkpoint(v=tf.Variable(3.0))
    exported.f = tf.function(
        lambda x: exported.v * x, input_signature=[tf.TensorSpec([], tf.float32)]
    )
    tf.saved_model.save(exported, path)
    loaded = tf.saved_model.load(path)
    assert loaded.f(tf.constant(2.0)).numpy() == 6
    assert loaded.v.numpy() == 3


def test_modules_that_hold_each_other_are_saved(path):
    parent, child = tf.Module(), tf.Module()
    parent.child, child.parent, child.v = child, parent, tf.Variable(2.0)
    tf.saved_model.save(parent, path)
    assert float(tf.saved_model.load(path).child.v) == 2.0


def test_options_are_accepted(path):
    module = Linear()
    options = tf.saved_model.SaveOptions(experimental_io_device="/job:localhost")
    tf.saved_model.save(module, path, options=options)
    options = tf.saved_model.LoadOptions(experimental_io_device="/job:localhost")
    assert tf.saved_model.load(path, options=options).count(tf.constant(1)).numpy() == 1


def test_contains_saved_model(path, tmp_path):
    assert not tf.saved_model.contains_saved_model(path)
    tf.saved_model.save(Linear(), path)
    assert tf.saved_model.contains_saved_model(path)
    assert not tf.saved_model.contains_saved_model(str(tmp_path))


def test_an_object_without_functions_is_saved_with_a_warning(path, caplog):
    tf.saved_model.save(Inner(), path)
    assert "Call it once before it is saved" in caplog.text
    assert tf.saved_model.load(path).b.numpy() == 1.0


def test_a_fresh_interpreter_loads_it_without_the_source(path):
    module = Linear()
    module(tf.constant(X))
    tf.saved_model.save(module, path)
    program = (
        "import sys, numpy as np, mirrax.tf as tf\n"
        "loaded = tf.saved_model.load(sys.argv[1])\n"
        "print(loaded(np.arange(6, dtype='f').reshape(3, 2)).numpy().ravel().tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip() == "[3.0, 9.0, 15.0]", done.stderr


def test_a_fresh_interpreter_runs_a_keras_model_on_1_and_2_replicas(path):
    model = keras_model()
    tf.saved_model.save(model, path)
    program = (
        "import sys, numpy as np, mirrax.tf as tf\n"
        "tf.config.set_logical_devices('CPU', 2)\n"
        "rows = np.arange(8, dtype='f').reshape(4, 2)\n"
        "dataset = tf.data.Dataset.from_tensor_slices(rows).batch(4)\n"
        "for devices in (['CPU:0'], ['CPU:0', 'CPU:1']):\n"
        "    strategy = tf.distribute.MirroredStrategy(devices)\n"
        "    with strategy.scope():\n"
        "        loaded = tf.saved_model.load(sys.argv[1])\n"
        "    for batch in strategy.experimental_distribute_dataset(dataset):\n"
        "        parts = strategy.run(loaded, args=(batch,))\n"
        "        print(strategy.gather(parts, axis=0).numpy().ravel().tolist())\n"
        "assert 'keras' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, two = map(json.loads, done.stdout.splitlines())
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_allclose(one, np.ravel(model(rows)), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-6)


def test_functions_without_arguments_are_saved(tmp_path):
    class Dice(tf.Module):
        def __init__(self):
            super().__init__()
            self.generator = tf.random.Generator.from_seed(0)

        @tf.function
        def roll(self):
            return self.generator.uniform([])

    dice = Dice()
    dice.roll()
    tf.saved_model.save(dice, tmp_path / "model")
    loaded = tf.saved_model.load(tmp_path / "model")
    for _ in range(2):
        assert loaded.roll().numpy() == dice.roll().numpy()


def test_function_reads_sizes_that_are_left_open(path):
    @tf.function(input_signature=[tf.TensorSpec([None, None, 2])])
    def encode(x):
        batch, length, _ = tf.unstack(tf.shape(x))
        places = tf.cast(tf.range(tf.shape(x)[1]), tf.float32)
        mask = tf.sequence_mask(tf.fill([batch], 2), length, dtype=tf.float32)
        x = (x + places[:, None]) * mask[..., None] / tf.cast(length, tf.float32)
        x = tf.reshape(x, tf.concat([tf.shape(x)[:-1], [1, -1]], axis=0))
        x += tf.zeros(x.shape.as_list()) + tf.repeat([[[[1.0]]]], batch, axis=0)
        return tf.reshape(x, tf.stack([tf.shape(x)[0], -1])), tf.shape(x)

    module = tf.Module()
    module.encode = encode
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    for shape in ((2, 3, 2), (1, 4, 2)):
        x = tf.random.normal(shape)
        for found, expected in zip(loaded.encode(x), encode(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "flatten",
    [
        lambda x: tf.reshape(x, [tf.reduce_prod(tf.shape(x))]),
        lambda x: tf.reshape(x, [tf.size(x) * tf.reduce_prod(tf.shape(x)[2:])]),
        lambda x: tf.reshape(tf.slice(x, [0, 0], tf.shape(x)), [-1]),
    ],
)
def test_open_sizes_are_multiplied_and_sliced(flatten, path):
    module = tf.Module()
    module.f = tf.function(flatten, input_signature=[tf.TensorSpec([None, None])])
    tf.saved_model.save(module, path)
    assert tf.saved_model.load(path).f(X).tolist() == [0, 1, 2, 3, 4, 5]


def test_functions_of_unknown_rank_are_saved_for_several_ranks(path):
    # As TensorFlow 2.21.
    module = tf.Module()
    module.f = tf.function(
        lambda x: {"sum": x + 1.0, "rank": tf.rank(x)},
        input_signature=[tf.TensorSpec(None, tf.float32)],
    )
    tf.saved_model.save(module, path, signatures=module.f)
    tf.saved_model.save(tf.saved_model.load(path), path + "_again")
    loaded = tf.saved_model.load(path + "_again")
    signatures = tf.saved_model.load(path).signatures
    tf.saved_model.save(loaded, path, signatures=signatures)
    serve = tf.saved_model.load(path).signatures["serving_default"]
    for shape in ((), (2,), (1, 2), (2, 1, 2)):
        for given in (loaded.f(tf.ones(shape)), serve(x=tf.ones(shape))):
            assert given["sum"].numpy().tolist() == np.full(shape, 2.0).tolist()
            assert given["rank"].numpy() == len(shape)
    assert serve.inputs == [tf.TensorSpec(None, tf.float32, "x")]
    assert serve.structured_outputs["sum"].shape is None
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        loaded.f(tf.ones([1] * 5))


def test_functions_are_saved_for_the_ranks_that_they_can_have(path):
    module = tf.Module()
    module.f = tf.function(
        lambda x: tf.reduce_sum(x, axis=1),
        input_signature=[tf.TensorSpec(None, tf.float32)],
    )
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert loaded.f(tf.ones([2, 3])).numpy().tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        loaded.f(tf.constant(1.0))


@pytest.mark.parametrize(
    ("fn", "count"),
    [(lambda x, y: x + y, 2), (lambda x: tf.matmul(x, x), 1)],
    ids=["add", "matmul"],
)
def test_functions_that_need_equal_sizes_are_not_saved_for_fewer_ranks(fn, count, path):
    unknown = tf.TensorSpec(None, tf.float32)
    module = tf.Module()
    module.f = tf.function(fn, input_signature=[unknown] * count)
    with pytest.raises(ValueError, match=r"f, which accepts only some .* of rank 2"):
        tf.saved_model.save(module, path)


@pytest.mark.parametrize(
    ("fn", "error", "message"),
    [
        (lambda x: tf.matmul(x, tf.ones([2, 3])), ValueError, "f, which accepts none"),
        (lambda x: len(x, 3), ValueError, r"f, which accepts none: len\(\) takes"),
        (lambda x: x.nope, AttributeError, "nope"),
        (lambda x: {}["a"] if len(x.shape) == 2 else x, KeyError, "a"),
    ],
    ids=["all", "type", "attribute", "one_rank"],
)
def test_functions_of_unknown_rank_that_fail_are_not_saved(fn, error, message, path):
    module = tf.Module()
    module.f = tf.function(fn, input_signature=[tf.TensorSpec(None, tf.float32)])
    with pytest.raises(error, match=message):
        tf.saved_model.save(module, path)


def test_loaded_variables_have_the_methods_of_tensorflow(path):
    tf.saved_model.save(Linear(), path)
    loaded = tf.saved_model.load(path)
    assert loaded.w.shape.as_list() == [2, 1]
    assert loaded.w.sparse_read([1]).numpy().tolist() == [[2.0]]
    assert loaded.count(tf.constant(2)).numpy() == loaded.calls.numpy() == 2


def test_concrete_functions_of_unknown_rank_are_saved(path):
    # As TensorFlow 2.21.
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1.0)
    module.f.get_concrete_function(tf.TensorSpec(None, tf.float32))
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert loaded.f(tf.constant(1.0)).numpy() == 2.0
    assert loaded.f(tf.constant([1.0])).numpy().tolist() == [2.0]


def module_of(signature, body, name="f"):
    module = tf.Module()
    setattr(module, name, tf.function(body, input_signature=signature))
    return module


def test_the_only_function_is_served_by_default(path):
    module = module_of([tf.TensorSpec([None])], lambda x: x + 1.0)
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert list(loaded.signatures) == ["serving_default"]
    served = loaded.signatures["serving_default"](x=tf.constant([1.0]))
    assert served["output_0"].numpy().tolist() == [2.0]


def test_functions_with_nested_results_are_not_served_by_default(path):
    module = module_of([tf.TensorSpec([])], lambda x: {"a": {"b": x}})
    tf.saved_model.save(module, path)
    assert not tf.saved_model.load(path).signatures


@pytest.mark.parametrize(
    "body", [lambda x: (x, [x]), lambda x: {"a": {"b": x}}], ids=["tuple", "dict"]
)
def test_signatures_with_nested_results_are_refused(path, body):
    module = module_of([tf.TensorSpec([])], body)
    with pytest.raises(ValueError, match=r"non-Tensor value.*Return a flat dict"):
        tf.saved_model.save(module, path, signatures=module.f)


def test_functions_without_a_signature_are_refused_as_signatures(path):
    module = module_of(None, lambda x: x)
    with pytest.raises(ValueError, match=r"Use its `get_concrete_function`"):
        tf.saved_model.save(module, path, signatures=module.f)


def test_signatures_name_their_outputs(path):
    module = module_of([tf.TensorSpec([])], lambda x: {"y": x})
    tf.saved_model.save(module, path)
    signatures = tf.saved_model.load(path).signatures
    assert signatures["serving_default"].structured_outputs["y"].name == "y"


@pytest.mark.parametrize("obj", [5, {}, tf.constant(1.0)], ids=["int", "dict", "array"])
def test_objects_without_attributes_are_not_saved(path, obj):
    with pytest.raises(ValueError, match=r"Set them on a `tf\.Module`"):
        tf.saved_model.save(obj, path)


@pytest.mark.parametrize("kind", [tf.Module, tf.train.Checkpoint])
def test_the_attribute_of_signatures_is_reserved(path, kind):
    module = kind()
    module.signatures = tf.Variable(1.0)
    with pytest.raises(ValueError, match=r"del obj\.signatures"):
        tf.saved_model.save(module, path)


def test_functions_that_were_never_called_say_so_when_loaded(path):
    tf.saved_model.save(module_of(None, lambda x: x), path)
    loaded = tf.saved_model.load(path)
    with pytest.raises(ValueError, match=r"zero restored functions.*Call it once"):
        loaded.f(tf.constant(1.0))


def test_functions_that_were_called_with_objects_say_so_when_loaded(path):
    module = module_of(None, lambda x, scale: x * scale())
    module.f(tf.constant(1.0), lambda: 2.0)
    tf.saved_model.save(module, path)
    with pytest.raises(ValueError, match="zero restored functions"):
        tf.saved_model.load(path).f(tf.constant(1.0))


def test_functions_that_a_signature_calls_are_saved(path):
    class Doubling(tf.Module):
        @tf.function
        def __call__(self, x):
            return x * 2

    model = Doubling()
    serve = tf.function(lambda x: {"output": model(x)})
    signature = serve.get_concrete_function(tf.TensorSpec([3], tf.float32))
    tf.saved_model.save(model, path, signatures=signature)
    loaded = tf.saved_model.load(path)
    np.testing.assert_array_equal(loaded([1, 2, 3]), [2, 4, 6])


def test_functions_that_were_never_called_are_saved_again(path, tmp_path):
    tf.saved_model.save(module_of(None, lambda x: x), path)
    again = str(tmp_path / "again")
    tf.saved_model.save(tf.saved_model.load(path), again)
    with pytest.raises(ValueError, match="zero restored functions"):
        tf.saved_model.load(again).f(tf.constant(1.0))


def test_loaded_functions_have_concrete_functions(path):
    module = Linear()
    module(tf.constant(X))
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    concrete = loaded.count.get_concrete_function(tf.TensorSpec([], tf.int32))
    assert concrete(tf.constant(3)).numpy() == 3


def test_loaded_functions_of_several_calls_have_concrete_functions(path):
    module = module_of(None, lambda x, k=2: x * k)
    module.f(tf.constant(3.0))
    module.f(tf.constant(3.0), k=5)
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    concrete = loaded.f.get_concrete_function(tf.TensorSpec([]), k=5)
    assert concrete(tf.constant(2.0)).numpy() == 10.0


def test_checkpoints_save_loaded_models(path, tmp_path):
    tf.saved_model.save(Linear(), path)
    loaded, other = tf.saved_model.load(path), tf.saved_model.load(path)
    loaded.w.assign([[5.0], [6.0]])
    saved = tf.train.Checkpoint(model=loaded).save(str(tmp_path / "ckpt"))
    tf.train.Checkpoint(model=other).restore(saved).assert_consumed()
    assert other.w.numpy().tolist() == [[5.0], [6.0]]


def test_assets_are_copied_into_the_saved_model(path, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("a b")
    module = tf.Module()
    module.words = tf.saved_model.Asset(words)
    tf.saved_model.save(module, path)
    words.unlink()
    loaded = tf.saved_model.load(path)
    with tf.io.gfile.GFile(loaded.words.asset_path.numpy()) as file:
        assert file.read() == "a b"


def test_assets_of_loaded_models_are_saved_again(path, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("a b")
    module = tf.Module()
    module.words = tf.saved_model.Asset(words)
    tf.saved_model.save(module, path)
    again = tmp_path / "again"
    tf.saved_model.save(tf.saved_model.load(path), str(again))
    assert (again / "assets" / "words.txt").read_text() == "a b"


def test_models_are_tagged_for_serving(path):
    tf.saved_model.save(Linear(), path)
    for tags in ("serve", ["serve"], {tf.saved_model.SERVING}):
        assert tf.saved_model.load(path, tags=tags).variables
    with pytest.raises(ValueError, match=r"tagged 'serve'.*Omit them"):
        tf.saved_model.load(path, tags=["train"])


class Pair(typing.NamedTuple):
    first: typing.Any
    second: typing.Any


def test_namedtuples_are_saved(path):
    module = tf.Module()
    signature = [tf.TensorSpec([], tf.float32)]
    module.pair = tf.function(lambda x: Pair(x, x + 1.0), input_signature=signature)
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert loaded.pair(1.0).second.numpy() == 2.0
    served = loaded.signatures["serving_default"]
    assert [*served.structured_outputs] == ["first", "second"]
    assert served(x=1.0)["second"].numpy() == 2.0


def test_variables_with_copies_are_saved_combined(path, strategy):
    with strategy.scope():
        seen = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    strategy.run(lambda: seen.assign_add(1.0))
    module = tf.Module()
    module.seen = seen
    module.read = tf.function(lambda: seen * 1.0, input_signature=[])
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    assert loaded.read().numpy() == loaded.seen.numpy() == 2.0
