"""Calls that mean the same are written the same, and share one program."""

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run.spelling import Spelling


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {}), ((1, 2), {}), ((1,), {"y": 2}), ((), {"x": 1}), ((1, 2, "a"), {})],
)
def test_defaults_are_left_out(args, kwargs):
    def fn(x, y=2, *, z="a"):
        return x, y, z

    def positional(x, y=2, z="a"):
        return x, y, z

    spelling = Spelling(positional if len(args) == 3 else fn)
    assert spelling.unify(args, kwargs) == ((1,), {})


@pytest.mark.parametrize("value", [3, 2.0, True, np.int32(2)], ids=repr)
def test_other_values_and_types_are_kept(value):
    args, kwargs = Spelling(lambda x, y=2: x).unify((1,), {"y": value})
    assert (args, kwargs) == ((1, value), {})
    assert type(args[1]) is type(value)


def test_a_default_before_another_value_is_left_out():
    assert Spelling(lambda x, y=2, z=3: x).unify((1, 2, 5), {}) == ((1,), {"z": 5})


@pytest.mark.parametrize(
    "fn", [lambda x, y=2, *rest: x, lambda x, y=2, /: x, max], ids=["rest", "/", "max"]
)
def test_arguments_without_names_stay_as_they_are(fn):
    assert Spelling(fn).unify((1, 2), {}) == ((1, 2), {})


def test_wrong_calls_are_left_to_the_function():
    assert Spelling(lambda x: x).unify((1, 2), {"z": 3}) == ((1, 2), {"z": 3})


def test_an_explicit_default_is_no_new_trace():
    @mirrax.function(static_numbers=True)
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

    @mirrax.function(static_numbers=True)
    def add(x, y=2):
        traces.append(1)
        return x + y

    strategy.run(add, (jnp.float32(1),))
    strategy.run(add, (jnp.float32(1), 2))
    assert len(traces) == 1


@pytest.mark.parametrize("static_numbers", [False, True])
def test_numbers_of_numpy_are_traced_like_arrays(static_numbers):
    double = mirrax.function(lambda x: x * 2, static_numbers=static_numbers)
    numbers = [np.int32(3), np.int32(4), np.array(5, np.int32), jnp.int32(6)]
    assert [int(double(number)) for number in numbers] == [6, 8, 10, 12]
    assert double.trace_count == 1
