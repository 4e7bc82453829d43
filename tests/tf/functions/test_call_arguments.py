"""Calls that mean the same are written the same, and share one program."""

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import tf
from mirrax.tf.functions.call_arguments import CallArguments


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {}), ((1, 2), {}), ((1,), {"y": 2}), ((), {"x": 1}), ((1, 2, "a"), {})],
)
def test_defaults_are_left_out(args, kwargs):
    def fn(x, y=2, *, z="a"):
        return x, y, z

    def positional(x, y=2, z="a"):
        return x, y, z

    arguments = CallArguments(positional if len(args) == 3 else fn)
    assert arguments.unify(args, kwargs) == ((1,), {})


@pytest.mark.parametrize("value", [3, 2.0, True, np.int32(2)], ids=repr)
def test_other_values_and_types_are_kept(value):
    args, kwargs = CallArguments(lambda x, y=2: x).unify((1,), {"y": value})
    assert (args, kwargs) == ((1, value), {})
    assert type(args[1]) is type(value)


def test_a_default_before_another_value_is_left_out():
    assert CallArguments(lambda x, y=2, z=3: x).unify((1, 2, 5), {}) == ((1,), {"z": 5})


@pytest.mark.parametrize(
    "fn", [lambda x, y=2, *rest: x, lambda x, y=2, /: x, max], ids=["rest", "/", "max"]
)
def test_arguments_without_names_stay_as_they_are(fn):
    assert CallArguments(fn).unify((1, 2), {}) == ((1, 2), {})


def test_wrong_calls_are_left_to_the_function():
    assert CallArguments(lambda x: x).unify((1, 2), {"z": 3}) == ((1, 2), {"z": 3})


def test_an_explicit_default_is_no_new_trace():
    @tf.function
    def add(x, y=2):
        return x + y

    x = jnp.float32(1)
    assert [add(x), add(x, 2), add(x, y=2), add(x=x)] == [3.0] * 4
    assert add.trace_count == 1
    assert add(x, 3) == 4.0
    assert add.trace_count == 2


def test_an_explicit_default_in_run_is_no_new_trace():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    traces = []

    @tf.function
    def add(x, y=2):
        traces.append(1)
        return x + y

    strategy.run(add, (jnp.float32(1),))
    strategy.run(add, (jnp.float32(1), 2))
    assert len(traces) == 1


@pytest.mark.parametrize("function", [mirrax.function, tf.function])
def test_numbers_of_numpy_are_traced_like_arrays(function):
    double = function(lambda x: x * 2)
    numbers = [np.int32(3), np.int32(4), np.array(5, np.int32), jnp.int32(6)]
    assert [int(double(number)) for number in numbers] == [6, 8, 10, 12]
    assert double.trace_count == 1


def test_python_numbers_are_part_of_the_program():
    seen = []
    power = tf.function(lambda x, n: seen.append(n) or x**n)
    assert [float(power(jnp.float32(2), n)) for n in (2, 3, 2)] == [4, 8, 4]
    assert seen == [2, 3]


def test_python_numbers_inside_structures_are_part_of_the_program():
    seen = []
    scaled = tf.function(lambda x, options: seen.append(options["n"]) or x)
    for n in (2, 2.0, 2):
        scaled(jnp.float32(2), {"n": n})
    assert [type(n) for n in seen] == [int, float]


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {}, "missing a required argument: 'y'"),
        ((1, 2), {"z": 2}, "got an unexpected keyword argument 'z'"),
    ],
    ids=["too many", "missing", "unknown"],
)
def test_wrong_arguments_are_refused_as_in_tensorflow(args, kwargs, reason):
    @tf.function
    def total(x, y):
        return x + y

    expected = rf"Binding inputs to tf.function failed due to `{reason}`.*total\(x, y\)"
    with pytest.raises(TypeError, match=expected):
        total(*args, **kwargs)


def test_type_errors_of_the_function_itself_are_its_own():
    @tf.function
    def fails(x):
        return len(5)

    with pytest.raises(TypeError, match="has no len"):
        fails(tf.constant(1.0))


def test_dtypes_are_no_signature():
    with pytest.raises(TypeError, match=r"`tf\.TensorSpec` for each.*Write tf\.T"):
        tf.function(lambda x: x, input_signature=[tf.float32])
