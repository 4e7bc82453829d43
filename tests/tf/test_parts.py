"""Structures, checks, errors, settings, modules and names that are left out."""

import os
import subprocess
import sys

import pytest

import mirrax
from mirrax import tf


def test_structures_keep_variables_whole():
    variable = tf.Variable([1.0, 2.0])
    assert tf.nest.flatten({"v": variable, "n": None})[1] is variable
    assert tf.nest.is_nested({"a": 1})


def test_structures_must_fit():
    with pytest.raises(ValueError, match="same nesting"):
        tf.nest.map_structure(lambda a, b: a, [1, 2], [1])
    with pytest.raises(TypeError, match="same nesting"):
        tf.nest.assert_same_structure([1], (1,))
    with pytest.raises(ValueError, match="with 2 leaves needs as many"):
        tf.nest.pack_sequence_as([1, 2], [1])


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (tf.debugging.assert_equal, (1, 1), (1, 2)),
        (tf.debugging.assert_none_equal, (1, 2), (1, 1)),
        (tf.debugging.assert_greater, (2, 1), (1, 1)),
        (tf.debugging.assert_greater_equal, (1, 1), (0, 1)),
        (tf.debugging.assert_less, (0, 1), (1, 1)),
        (tf.debugging.assert_less_equal, (1, 1), (2, 1)),
        (tf.debugging.assert_near, (1.0, 1.0 + 1e-7), (1.0, 1.1)),
        (tf.debugging.assert_positive, (1,), (0,)),
        (tf.debugging.assert_negative, (-1,), (0,)),
        (tf.debugging.assert_non_negative, (0,), (-1,)),
        (tf.debugging.assert_non_positive, (0,), (1,)),
        (tf.debugging.assert_all_finite, (1.0, "m"), (float("nan"), "m")),
        (tf.debugging.check_numerics, (1.0, "m"), (float("inf"), "m")),
        (tf.debugging.Assert, (True, [1]), (False, [1])),
    ],
)
def test_checks_of_values_raise(check, good, bad):
    check(*good)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected .* Received: "):
        check(*bad)


def test_checks_in_programs_raise_when_they_run():
    @tf.function
    def program(x):
        tf.debugging.assert_positive(x, message="loss")
        return x

    assert program(tf.constant(1.0)) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="loss: Expected x > 0"):
        program(tf.constant(-1.0))


@pytest.mark.parametrize(
    ("check", "error"),
    [
        (lambda: tf.debugging.assert_rank([1.0], 2), ValueError),
        (lambda: tf.debugging.assert_rank_at_least([1.0], 2), ValueError),
        (lambda: tf.debugging.assert_scalar([1.0]), ValueError),
        (lambda: tf.debugging.assert_type([1.0], tf.int32), TypeError),
        (lambda: tf.debugging.assert_integer([1.0]), TypeError),
        (
            lambda: tf.debugging.assert_shapes(
                [(tf.zeros([2, 3]), ("N", "D")), (tf.zeros([4]), ("D",))]
            ),
            ValueError,
        ),
    ],
    ids=["rank", "rank_at_least", "scalar", "type", "integer", "shapes"],
)
def test_checks_of_shapes_raise_at_once(check, error):
    with pytest.raises(error, match=r"Expected .* Received: "):
        check()


def test_shapes_with_letters_are_accepted():
    tf.debugging.assert_shapes([(tf.zeros([2, 3]), ("N", 3)), (tf.zeros([2]), ["N"])])
    assert tf.debugging.is_numeric_tensor(tf.zeros([1]))


def test_errors_are_those_that_are_raised(tmp_path):
    dataset = tf.data.TextLineDataset(str(tmp_path / "missing"))
    with pytest.raises(tf.errors.NotFoundError):
        list(dataset)
    assert tf.errors.UnavailableError is mirrax.errors.WorkerLost
    assert tf.errors.OUT_OF_RANGE == 11
    assert issubclass(tf.errors.FailedPreconditionError, RuntimeError)


def test_modules_collect_variables():
    class Layer(tf.Module):
        def __init__(self):
            super().__init__(name="layer")
            self.w = tf.Variable(1.0)
            self.count = tf.Variable(0, trainable=False)

        @tf.Module.with_name_scope
        def __call__(self, x):
            return self.w * x

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.layers = [Layer(), Layer()]
            self.again = self.layers[0]
            self.b = tf.Variable(2.0)

    model = Model()
    assert model.name == "model"
    assert len(model.variables) == 5
    assert len(model.trainable_variables) == 3
    assert len(model.non_trainable_variables) == 2
    assert model.variables[0] is model.b
    assert [m.name for m in model.submodules] == ["layer", "layer"]
    assert model.again(2.0) == 2


def test_devices_are_listed():
    assert tf.config.list_physical_devices("CPU")[0].device_type == "CPU"
    tf.config.set_visible_devices(tf.config.list_physical_devices("CPU"), "CPU")
    tf.config.set_soft_device_placement(True)
    assert tf.config.get_soft_device_placement()
    with pytest.raises(NotImplementedError, match="CUDA_VISIBLE_DEVICES"):
        tf.config.set_visible_devices([], "CPU")


def test_settings_go_to_the_environment(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--a")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    tf.config.optimizer.set_jit(True)
    tf.config.optimizer.set_experimental_options({"layout_optimizer": True})
    assert tf.config.optimizer.get_experimental_options() == {"layout_optimizer": True}
    tf.config.experimental.set_memory_growth(None, True)
    assert tf.config.experimental.get_memory_growth(None)
    tf.config.experimental.enable_op_determinism()
    tf.config.experimental.enable_op_determinism()
    assert os.environ["XLA_FLAGS"] == "--a --xla_gpu_deterministic_ops=true"


def test_dtypes_are_those_of_numpy():
    assert tf.as_dtype("bfloat16") == tf.bfloat16
    assert tf.as_dtype("string") == tf.string
    assert isinstance(tf.float32, tf.DType)
    assert tf.dtypes.half == tf.float16


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("saved_model.experimental", "mirrax.train"),
        ("image.sobel_edges", "jax.image"),
        ("sparse.softmax", "jax.experimental.sparse"),
        ("ragged.cross", "few_lengths.*sequence_mask"),
        ("math.sobol_sample", "scipy"),
        ("nn.ctc_loss", "optax.ctc_loss"),
        ("raw_ops.Add", "jax.lax"),
        ("no_such_thing", "docs/migration.md"),
        ("math.no_such_thing", "docs/migration.md"),
    ],
)
def test_names_that_are_left_out_name_a_replacement(name, advice):
    module, _, attribute = f"tf.{name}".rpartition(".")
    with pytest.raises(AttributeError, match=advice):
        getattr(eval(module, {"tf": tf}), attribute)


def test_datasets_are_those_of_mirrax():
    assert issubclass(tf.data.Dataset, mirrax.data.Dataset)
    assert tf.data.experimental.cardinality(tf.data.Dataset.range(3)) == 3
    assert tf.data.experimental.AUTOTUNE == tf.data.AUTOTUNE
    with pytest.raises(AttributeError, match=r"the method of the same name"):
        tf.data.experimental.dense_to_sparse  # noqa: B018
    with pytest.raises(AttributeError, match=r"no `tf.data.NumpyIterator`"):
        tf.data.NumpyIterator  # noqa: B018


def test_names_that_are_left_out_are_no_attributes():
    assert not hasattr(tf, "lite")
    assert not hasattr(tf.math, "__wrapped__")


def test_no_module_shows_what_it_imports():
    helpers = {"jax", "jnp", "np", "mirrax", "Any", "annotations", "tensor", "lax"}
    for module in [tf.math, tf.nn, tf.random, tf.image]:
        assert not helpers & set(vars(module)) - {"annotations"}


def test_keras_is_that_of_jax():
    assert tf.keras.config.backend() == "jax"
    assert tf.losses is tf.keras.losses
    assert tf.optimizers.SGD is tf.keras.optimizers.SGD


def test_keras_on_another_backend_is_refused():
    program = (
        "import mirrax.tf as tf\ntry: tf.keras\nexcept RuntimeError as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "KERAS_BACKEND": "numpy"},
        timeout=120,
    )
    assert "Received: the backend 'numpy'" in done.stdout


def test_importing_does_not_import_keras():
    program = "import sys, mirrax.tf; print('keras' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == "False"


def test_the_aggregation_of_version_1_leaves_that_of_mirrax_alone():
    first = tf.VariableAggregation.ONLY_FIRST_TOWER
    assert first is mirrax.VariableAggregation.ONLY_FIRST_REPLICA
    assert not hasattr(mirrax.VariableAggregation, "ONLY_FIRST_TOWER")
    assert isinstance(tf.VariableAggregation.MEAN, tf.VariableAggregation)
    assert list(tf.VariableAggregation) == list(mirrax.VariableAggregation)
    with pytest.raises(AttributeError, match="Use one of"):
        tf.VariableAggregation.ALL  # noqa: B018


def test_version_1_has_the_names_that_stayed():
    assert tf.compat.v1.reduce_sum is tf.reduce_sum
    assert tf.compat.v1.random_shuffle is tf.random.shuffle
    with pytest.raises(AttributeError, match="arguments of a function"):
        tf.compat.v1.placeholder  # noqa: B018
    with pytest.raises(AttributeError, match=r"no `tf.compat.v1.no_such_thing`"):
        tf.compat.v1.no_such_thing  # noqa: B018


def test_loggers_are_those_of_python():
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    assert tf.get_logger().level == tf.compat.v1.logging.get_verbosity() == 40
    tf.get_logger().setLevel(0)


@pytest.mark.parametrize("compiled", [False, True])
def test_what_was_read_takes_arrays_on_its_right(compiled):
    variable = tf.Variable([1.0, 2.0])

    def compute(x):
        return variable.value * x, variable.value[0] * x, variable.value == x

    compute = tf.function(compute) if compiled else compute
    product, scaled, equal = compute(tf.constant([1.0, 3.0]))
    assert [product.numpy().tolist(), scaled.numpy().tolist()] == [[1, 6], [1, 3]]
    assert equal.numpy().tolist() == [True, False]


def test_async_scope_changes_nothing():
    with tf.experimental.async_scope():
        three = tf.constant(1) + 2
    tf.experimental.async_clear_error()
    assert int(three) == 3
