"""Functions whose Python decides on the values of arrays."""

import logging
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run.compiled import decisions


@pytest.fixture
def untold(monkeypatch):
    """As in a process that has logged no decisions yet."""
    monkeypatch.setattr(decisions, "_told", set())


def deciding(fn):
    return mirrax.function(fn, python_decisions=True)


def local(strategy, value):
    return [float(part) for part in strategy.experimental_local_results(value)]


def replica_numbers(strategy):
    return strategy.experimental_distribute_values_from_function(
        lambda context: np.float32(context.replica_id_in_sync_group)
    )


def doubled_if_positive(x):
    if x > 0:
        return 2 * x
    return x - 1


def test_condition_chooses_the_way_of_each_call():
    fn = deciding(doubled_if_positive)
    assert [float(fn(3.0)), float(fn(-3.0)), float(fn(4.0))] == [6.0, -4.0, 8.0]
    assert fn.trace_count == 1


@pytest.mark.parametrize(
    ("count_up", "expected"),
    [
        pytest.param(lambda n: sum(1 for _ in range(n)), 3, id="range"),
        pytest.param(lambda n: [10, 11, 12, 13][n], 13, id="index"),
        pytest.param(lambda n: int(n) + 1, 4, id="int"),
        pytest.param(lambda n: jnp.sum(jnp.ones(n)), 3, id="shape"),
        pytest.param(lambda n: np.add(n, 1), 4, id="numpy"),
        pytest.param(lambda n: jnp.arange(5)[jnp.arange(5) < n][-1], 2, id="mask"),
        pytest.param(lambda n: n > 2 and not n > 3, True, id="and"),
    ],
)
def test_other_questions_are_answered_too(count_up, expected):
    assert deciding(count_up)(jnp.int32(3)) == expected


def test_loop_ends_when_its_condition_does():
    @deciding
    def collatz(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    assert (collatz(jnp.int32(6)), collatz(jnp.int32(7))) == (8, 16)


def test_without_the_option_the_error_of_jax_has_a_hint():
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        mirrax.function(doubled_if_positive)(3.0)
    (note,) = [note for note in caught.value.__notes__ if "[mirrax]" in note]
    assert "python_decisions=True" in note
    assert "jax.lax.cond" in note


def test_place_and_reason_are_logged_once(caplog, untold):
    @deciding
    def fn(x):
        return x if x > 0 else -x

    line = fn.fn.__code__.co_firstlineno + 2
    with caplog.at_level(logging.WARNING):
        for x in (1.0, -1.0, np.ones(1, np.float32)):
            fn(x)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("fn decides in Python on the value of a tensor, at ")
    assert f"test_decisions.py:{line}, so its Python runs on every call" in message
    assert "jax.lax.cond" in message


def test_assignments_of_the_trace_that_was_given_up_do_not_stay():
    v = mirrax.Variable(1.0)

    @deciding
    def fn(x):
        v.assign_add(1.0)
        if x > 0:
            v.assign(10 * v)

    fn(1.0)
    assert float(v) == 20.0
    fn(-1.0)
    assert float(v) == 21.0


def test_variable_made_by_the_trace_that_was_given_up_is_used_on():
    made = []

    @deciding
    def fn(x):
        if not made:
            made.append(mirrax.Variable(5.0))
        made[0].assign_add(1.0)
        return made[0].value if x > 0 else x

    assert [float(fn(1.0)), float(fn(-1.0)), float(fn(1.0))] == [6.0, -1.0, 8.0]
    assert len(made) == 1


def test_error_of_the_user_comes_out():
    @deciding
    def fn(x):
        assert x > 0, "must be positive"
        return x

    assert float(fn(1.0)) == 1.0
    with pytest.raises(AssertionError, match="must be positive"):
        fn(-1.0)


def test_question_of_a_library_that_knows_what_to_do_changes_nothing():
    @deciding
    def fn(x):
        # JAX asks for the length of the scan, and goes on without it.
        return jax.lax.scan(lambda total, row: (total + row, None), 0.0, x)[0]

    assert float(fn(np.ones(3, np.float32))) == 3.0


def test_what_a_library_catches_keeps_the_program():
    source = "def ask(x):\n try:\n  return bool(x)\n except TypeError:\n  return None"
    library = {}
    exec(compile(source, "/site-packages/library.py", "exec"), library)
    calls = []

    @deciding
    def fn(x):
        calls.append(library["ask"](x))
        return x + 1

    assert [float(fn(1.0)), float(fn(2.0))] == [2.0, 3.0]
    assert calls == [None]


def test_functions_that_are_called_stay_compiled():
    @mirrax.function
    def square(x):
        return x * x

    @deciding
    def fn(x):
        return square(x) if square(x) > 4 else x

    assert [float(fn(x)) for x in (1.0, 3.0, 4.0)] == [1.0, 9.0, 16.0]
    assert square.trace_count == 1


def test_run_in_a_function_that_decides_is_compiled(strategy):
    traces = []

    def step(x):
        traces.append(isinstance(x, jax.core.Tracer))
        return x + 1

    @deciding
    def fn(x):
        total = strategy.reduce("SUM", strategy.run(step, (x,)), axis=None)
        if total > 100:
            total = total - 100
        return total

    count = strategy.num_replicas_in_sync
    assert [float(fn(x)) for x in (0.0, 200.0, 1.0)] == [
        count,
        201 * count - 100,
        2 * count,
    ]
    assert traces == [True, True]


def test_replicas_decide_on_their_own_values(strategy):
    with strategy.scope():
        total = mirrax.Variable(0.0, aggregation=mirrax.VariableAggregation.SUM)

    def step(x):
        total.assign_add(x)
        return 10 * x if x > 0.5 else x - 1

    @deciding
    def fn(x):
        return strategy.run(step, (x,))

    numbers = range(strategy.num_replicas_in_sync)
    expected = [10.0 * n if n else -1.0 for n in numbers]
    assert local(strategy, fn(replica_numbers(strategy))) == expected
    assert local(strategy, fn(replica_numbers(strategy))) == expected
    assert float(total) == 2 * sum(numbers)


def test_function_given_to_run_decides(strategy):
    @deciding
    def step(x):
        return 10 * x if x > 0.5 else x - 1

    values = replica_numbers(strategy)
    expected = [10.0 * n if n else -1.0 for n in range(strategy.num_replicas_in_sync)]
    assert local(strategy, strategy.run(step, (values,))) == expected
    assert local(strategy, strategy.run(step, (values,))) == expected


def test_what_it_costs_replicas_is_logged(two_replicas, caplog, untold):
    fn = deciding(doubled_if_positive)
    two_replicas.run(fn, (1.0,))
    (record,) = caplog.records
    assert "operation by operation, on one replica after the other" in record.message


def test_replicas_that_decide_call_different_functions(four_replicas):
    plus = mirrax.function(lambda x: x + 100)
    minus = mirrax.function(lambda x: x - 100)

    def step(x):
        total = mirrax.get_replica_context().all_reduce("SUM", x)
        return plus(x) if x > 1.5 else minus(total)

    fn = deciding(lambda x: four_replicas.run(step, (x,)))
    results = local(four_replicas, fn(replica_numbers(four_replicas)))
    assert results == [-94.0, -94.0, 102.0, 103.0]


def test_replicas_with_parts_of_different_shapes_decide(two_replicas):
    def step(x):
        return jnp.sum(x) if jnp.sum(x) > 2 else -jnp.sum(x)

    def part(context):
        return np.ones(2 + context.replica_id_in_sync_group, np.float32)

    values = two_replicas.experimental_distribute_values_from_function(part)
    fn = deciding(lambda x: two_replicas.run(step, (x,)))
    assert local(two_replicas, fn(values)) == [-2.0, 3.0]
    run = deciding(step)
    assert local(two_replicas, two_replicas.run(run, (values,))) == [-2.0, 3.0]


def test_tape_follows_the_way_that_is_taken():
    w = mirrax.Variable(3.0)

    @deciding
    def slope(x):
        with mirrax.GradientTape() as tape:
            y = w * w * x if x > 0 else w * x
        return tape.gradient(y, w)

    assert [float(slope(2.0)), float(slope(-2.0))] == [12.0, -2.0]


def test_replicas_that_decide_have_tapes(two_replicas):
    with two_replicas.scope():
        w = mirrax.Variable(2.0, aggregation=mirrax.VariableAggregation.MEAN)

    def step(x):
        with mirrax.GradientTape() as tape:
            y = w * x
            loss = y * y if y > 1 else y
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.5 * gradient)
        return gradient

    fn = deciding(lambda x: two_replicas.run(step, (x,)))
    assert local(two_replicas, fn(replica_numbers(two_replicas))) == [0.0, 4.0]
    assert float(w) == 1.0


def test_threads_decide_at_the_same_time():
    fn = deciding(doubled_if_positive)
    results = {}

    def work(number):
        results[number] = [float(fn(float(number))) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(n,)) for n in (-2, -1, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {-2: [-3.0] * 5, -1: [-2.0] * 5, 1: [2.0] * 5, 2: [4.0] * 5}


def test_signature_is_checked_on_every_call():
    @mirrax.function(input_signature=[mirrax.TensorSpec([])], python_decisions=True)
    def fn(x):
        return x if x > 0 else -x

    assert float(fn(np.float32(-1))) == 1.0
    with pytest.raises(ValueError, match="shape"):
        fn(np.ones(2, np.float32))


def test_dataset_in_a_try_is_driven():
    dataset = mirrax.data.Dataset.from_tensor_slices(np.arange(3.0, dtype=np.float32))

    @mirrax.function
    def total():
        result = 0.0
        try:
            for x in dataset:
                result += x
        except Exception:
            result = -1.0
        return result

    assert float(total()) == 3.0


def test_variable_is_assigned_inside_a_branch(caplog, untold):
    v = mirrax.Variable(0.0)

    @deciding
    def fn(x):
        if isinstance(x > 0, jax.core.Tracer):
            jax.lax.cond(x > 0, lambda: v.assign(1.0), lambda: v.assign(2.0))
        else:
            v.assign(1.0 if x > 0 else 2.0)
        return v.value

    assert [float(fn(1.0)), float(fn(-1.0))] == [1.0, 2.0]
    (record,) = caplog.records
    assert "fn assigns a variable inside a transformation" in record.message
    assert "Assign its result outside" in record.message
