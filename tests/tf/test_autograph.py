"""Loops and branches on tensors are part of the compiled program."""

# ruff: noqa: SIM108 - conditional expressions have tests of their own

import functools
import json
import logging
import sys
import threading
import traceback

import jax
import numpy as np
import pytest

from mirrax import tf
from mirrax.tf.autograph import fallback
from tests.tf.recorded.autograph_programs import PROGRAMS, RESULTS
from tests.tf.recorded.python_flow import plain, rounded

EXPECTED = json.loads(RESULTS.read_text())

# XLA has no gradient of a loop of unknown length.
RUN_BY_PYTHON = {"tape_around_a_dynamic_loop", "gradient_outside_of_a_loop"}


@pytest.fixture
def warnings(monkeypatch, caplog):
    """What is logged, as in a process that has logged nothing yet."""
    monkeypatch.setattr(fallback, "_told", set())
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.fixture
def strategy():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_what_tensorflow_gave(name, warnings):
    found = plain(PROGRAMS[name](tf, np))
    np.testing.assert_equal(rounded(found), rounded(EXPECTED[name]))
    if name not in RUN_BY_PYTHON:
        assert [r.getMessage() for r in warnings.records] == []


def test_every_program_is_recorded():
    assert EXPECTED.keys() == PROGRAMS.keys()


def local(strategy, value):
    return [float(part) for part in strategy.experimental_local_results(value)]


def own_numbers(strategy):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(1.0 + context.replica_id_in_sync_group)
    )


def test_loop_of_replicas_assigns_shared_variables(strategy):
    with strategy.scope():
        v = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    def step(x):
        for i in tf.range(3):
            v.assign_add(x * tf.cast(i, tf.float32))
        return v.read_value()

    fn = tf.function(lambda x: strategy.run(step, (x,)))
    assert local(strategy, fn(own_numbers(strategy))) == [9.0, 9.0]
    assert fn.trace_count == 1


def test_collective_in_a_loop_whose_condition_is_common(strategy):
    def step(x):
        context = tf.distribute.get_replica_context()
        total = context.all_reduce("SUM", x)
        while total < 20.0:
            total = context.all_reduce("SUM", total * x)
        return total

    fn = tf.function(lambda x: strategy.run(step, (x,)))
    assert local(strategy, fn(own_numbers(strategy))) == [27.0, 27.0]


def test_collective_in_a_branch_that_differs_is_refused(strategy):
    def step(x):
        if x > 1.5:
            x = tf.distribute.get_replica_context().all_reduce("SUM", x)
        return x

    fn = tf.function(lambda x: strategy.run(step, (x,)))
    with pytest.raises(ValueError, match=r"All replicas must reach.*test_autograph.py"):
        fn(own_numbers(strategy))


def test_keras_variable_is_assigned_in_a_loop():
    v = tf.keras.Variable(1.0)

    @tf.function
    def fn(n):
        for _ in tf.range(n):
            v.assign(v * 2.0)
        return v + 0.0

    assert [float(fn(tf.constant(n))) for n in (3, 1)] == [8.0, 16.0]
    assert float(v.numpy()) == 16.0


def test_python_runs_once(warnings):
    calls = []

    @tf.function
    def fn(n):
        calls.append(1)
        total = 0
        while n > 0:
            calls.append(2)
            total, n = total + n, n - 1
        return total

    assert [int(fn(tf.constant(n))) for n in (3, 10, 0)] == [6, 55, 0]
    assert calls == [1, 2]
    assert not warnings.records


def test_error_shows_the_line_of_the_user():
    @tf.function
    def fn(x):
        if x > 0:
            y = tf.reshape(x, [7])
        else:
            y = x
        return y

    with pytest.raises(TypeError) as caught:
        fn(tf.constant(1))
    frames = traceback.extract_tb(caught.value.__traceback__)
    lines = {f.lineno: f.name for f in frames if f.filename == __file__}
    first = fn.python_function.__code__.co_firstlineno
    assert {first + 2: "fn", first + 3: "if_body"}.items() <= lines.items()


def test_message_names_what_changed_in_a_loop():
    @tf.function
    def fn(n):
        size = tf.zeros([2])
        for _ in tf.range(n):
            size = size[:1]
        return size

    match = r"'size' has shape \(2,\) before the loop, but shape \(1,\) after"
    with pytest.raises(ValueError, match=match):
        fn(tf.constant(1))


def test_object_that_changes_in_a_loop_is_named():
    @tf.function
    def fn(n):
        mode = "first"
        for _ in tf.range(n):
            mode = "later"
        return n if mode == "first" else -n

    with pytest.raises(TypeError, match="'mode' is 'first' before the loop, but 'lat"):
        fn(tf.constant(1))


def test_list_that_a_loop_appends_to_is_refused_with_advice():
    @tf.function
    def fn(n):
        found = []
        for i in tf.range(n):
            found.append(i)
        return found

    with pytest.raises(jax.errors.UnexpectedTracerError) as caught:
        fn(tf.constant(3))
    assert any("TensorArray" in note for note in caught.value.__notes__)


def test_variable_without_a_value_is_refused_when_the_loop_did_not_run():
    @tf.function
    def fn(n):
        for i in tf.range(n):
            y = i
        return y

    assert int(fn(tf.constant(2))) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="'y' must be defined"):
        fn(tf.constant(0))


def test_failed_assertion_raises():
    @tf.function
    def fn(x):
        assert x > 0, f"not positive: {1 + 1}"
        return x

    assert int(fn(tf.constant(1))) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="not positive: 2"):
        fn(tf.constant(-1))


def test_print_shows_tensors_once_when_they_are_traced(capfd):
    @tf.function
    def fn(x):
        print("known", 1)
        print("x is", x, [x], sep="=")
        return x

    fn(tf.constant(3))
    fn(tf.constant(4))
    shape = "shape=(), dtype=int32"
    shown = f"x is=Tensor({shape})=[<tf.Tensor {shape.replace(',', '')}>]"
    assert capfd.readouterr().out.split("\n") == ["known 1", shown, ""]


def test_shapes_that_differ_between_branches_are_run_by_python(warnings):
    @tf.function
    def fn(x):
        if x > 0:
            y = tf.zeros([2])
        else:
            y = tf.zeros([3])
        return y

    assert [len(fn(tf.constant(x))) for x in (1, -1, 1)] == [2, 3, 2]
    (record,) = warnings.records
    line = fn.python_function.__code__.co_firstlineno + 2
    assert f"test_autograph.py:{line}: 'y' has shape (2,)" in record.getMessage()


@pytest.mark.parametrize("size", [0, 1])
def test_loop_in_which_an_array_grows_is_run_by_python(size, warnings):
    @tf.function
    def fn(n):
        array = tf.TensorArray(tf.int32, size=size, dynamic_size=True)
        i = tf.constant(0)
        while i < n:
            array = array.write(i, i * i)
            i += 1
        return array.stack()

    assert fn(tf.constant(4)).numpy().tolist() == [0, 1, 4, 9]
    assert fn(tf.constant(2)).numpy().tolist() == [0, 1]
    (record,) = warnings.records
    assert "Use `tf.TensorArray(dtype, size=n)`" in record.getMessage()


def test_function_without_source_is_run_by_python(warnings):
    names = {}
    exec("def fn(x):\n    return x if x > 0 else -x", names)
    fn = tf.function(names["fn"])
    assert [int(fn(tf.constant(x))) for x in (1, -2)] == [1, 2]
    (record,) = warnings.records
    assert "AutoGraph could not convert it" in record.getMessage()


def test_without_the_package_python_runs_and_says_what_to_install(
    warnings, monkeypatch
):
    imported = [name for name in sys.modules if name.partition(".")[0] == "malt"]
    for name in {"malt", *imported}:
        monkeypatch.setitem(sys.modules, name, None)

    @tf.function
    def fn(x):
        if x > 0:
            return x
        return -x

    assert [int(fn(tf.constant(x))) for x in (1, -2)] == [1, 2]
    (record,) = warnings.records
    assert "pip install mirrax[tf]" in record.getMessage()
    with pytest.raises(ImportError, match=r"pip install mirrax\[tf\]"):
        tf.autograph.to_graph(fn)


def test_run_in_a_function_that_python_runs_is_compiled(strategy, warnings):
    traced = []

    def step(x):
        traced.append(isinstance(x, jax.core.Tracer))
        if x > 1.5:
            x = x * 10
        return x

    @tf.function
    def fn(x):
        parts = strategy.run(step, (x,))
        total = strategy.reduce("SUM", parts, axis=None)
        return [total] if any([total > 5, total > 7]) else []

    values = own_numbers(strategy)
    assert [len(fn(values)), len(fn(values))] == [1, 1]
    assert all(traced)
    assert len(traced) == 2


def test_library_that_calls_a_function_of_the_user():
    def row(x):
        if x > 0:
            return x
        return -x

    @tf.function
    def fn(x):
        return tf.map_fn(row, x), tf.cond(x[0] > 0, lambda: row(x[1]), lambda: x[0])

    rows, one = fn(tf.constant([1, -2, 3]))
    assert rows.tolist() == [1, 2, 3]
    assert int(one) == 2


def test_partial_and_callable_object():
    class Clip:
        def __init__(self, limit):
            self.limit = limit

        def __call__(self, x):
            if x > self.limit:
                return tf.constant(self.limit)
            return x

    def shifted(offset, x):
        return x + offset if x > 0 else x

    clip, shift = tf.function(Clip(3)), tf.function(functools.partial(shifted, 10))
    assert [int(clip(tf.constant(x))) for x in (1, 9)] == [1, 3]
    assert [int(shift(tf.constant(x))) for x in (1, -9)] == [11, -9]


def test_private_attribute_of_a_class():
    class Scale:
        __factor = 3

        @tf.function
        def scaled(self, x):
            if x > 0:
                return x * self.__factor
            return x

    assert [int(Scale().scaled(tf.constant(x))) for x in (2, -2)] == [6, -2]


def test_to_graph_and_to_code():
    def fn(x):
        if x > 0:
            return x
        return -x

    assert "if_stmt" in tf.autograph.to_code(fn)
    converted = tf.autograph.to_graph(fn)
    assert int(tf.function(converted, autograph=False)(tf.constant(-1))) == 1
    with pytest.raises(ValueError, match="converts functions and methods"):
        tf.autograph.to_graph(3)


def test_replicas_that_run_eagerly_convert_at_the_same_time(strategy):
    @tf.function
    def inner(x):
        if x > 1.5:
            return x * 2
        return x

    def step(x):
        total = tf.distribute.get_replica_context().all_reduce("SUM", inner(x))
        return inner(total)

    assert local(strategy, strategy.run(step, (own_numbers(strategy),))) == [10.0, 10.0]


def test_threads_convert_at_the_same_time():
    def fn(x):
        total = 0
        for i in tf.range(x):
            if i % 2 == 0:
                total += i
        return total

    found = {}

    def work(number):
        found[number] = int(tf.function(fn)(tf.constant(number)))

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {3: 2, 5: 6, 7: 12}
