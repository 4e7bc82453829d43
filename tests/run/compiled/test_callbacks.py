"""A callback that raises is an error of the call, on every device, and nothing else."""

import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run.compiled.callbacks import Failures
from tests.programs import create, replica_id

SCALAR = jax.ShapeDtypeStruct((), jnp.float32)
MEAN = mirrax.VariableAggregation.MEAN

kinds = pytest.mark.parametrize(
    "call",
    [
        lambda fn, x: jax.pure_callback(fn, SCALAR, x),
        lambda fn, x: jax.experimental.io_callback(fn, SCALAR, x),
        lambda fn, x: jax.debug.callback(fn, x) or x,
        lambda fn, x: jax.lax.scan(
            lambda c, _: (jax.pure_callback(fn, SCALAR, c), None), x, length=2
        )[0],
        lambda fn, x: jax.lax.cond(
            x < 9, lambda x: jax.pure_callback(fn, SCALAR, x), lambda x: x, x
        ),
    ],
    ids=["pure", "io", "debug", "in_scan", "in_cond"],
)


def fail_at_zero(x):
    if x == 0:
        raise KeyError("mine")
    return np.float32(x)


def make_step(variable, call):
    @mirrax.function
    def step(x):
        value = call(fail_at_zero, x + replica_id())
        variable.assign_add(mirrax.get_replica_context().all_reduce("SUM", value))

    return step


@kinds
def test_error_of_one_replica_comes_out_and_variables_stay(strategy, call):
    variable = create(strategy, jnp.float32(0))
    step = make_step(variable, call)
    strategy.run(step, args=(1.0,))
    before = variable.numpy()
    with pytest.raises(KeyError, match="mine") as error:
        strategy.run(step, args=(0.0,))
    assert "variables are as they were" in error.value.__notes__[0]
    assert variable.numpy() == before
    strategy.run(step, args=(1.0,))
    assert variable.numpy() == 2 * before


def test_error_comes_out_of_an_uneven_step(two_replicas):
    variable = create(two_replicas, jnp.float32(0))

    @mirrax.function
    def step(part):
        value = jax.pure_callback(fail_at_zero, SCALAR, part.sum())
        variable.assign_add(mirrax.get_replica_context().all_reduce("SUM", value))

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step, args=(mirrax.PerReplica((jnp.ones(2), jnp.ones(0))),))
    assert variable.numpy() == 0
    two_replicas.run(step, args=(mirrax.PerReplica((jnp.ones(2), jnp.ones(1))),))
    assert variable.numpy() == 3


@pytest.mark.parametrize("call", [jax.pure_callback, jax.experimental.io_callback])
def test_what_a_callback_gives_differs_between_replicas(two_replicas, call):
    variable = create(two_replicas, jnp.float32(0))
    numbers = itertools.count(1)

    def number():
        return call(lambda: np.float32(next(numbers)), SCALAR)

    with pytest.raises(ValueError, match=r"the same value by every replica"):
        two_replicas.run(mirrax.function(lambda: [variable.assign(number())]))
    assert sorted(two_replicas.run(mirrax.function(number)).values) == [1, 2]


def test_print_that_cannot_be_formatted_leaves_variables_as_they_were():
    variable = mirrax.Variable(jnp.float32(0))

    @mirrax.function
    def step(x):
        jax.debug.print("{:d}", x)
        variable.assign_add(x)

    with pytest.raises(Exception, match="format code"):
        step(1.0)
    assert variable.numpy() == 0


def test_convolutions_stand_beside_callbacks(two_replicas):
    @mirrax.function
    def step(x):
        jax.debug.callback(lambda _: None, x)
        return jax.lax.conv(x, jnp.ones((1, 1, 2, 2)), (1, 1), "VALID").sum()

    total = two_replicas.run(step, args=(jnp.ones((1, 1, 3, 3)),))
    assert float(total) == 16.0


def test_a_callback_can_read_a_variable(two_replicas):
    with two_replicas.scope():
        read, written = mirrax.Variable(2.0), mirrax.Variable(0.0)

    @mirrax.function
    def step(x):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        found = jax.pure_callback(lambda _: np.float32(read.numpy()), shape, x)
        written.assign_add(found)

    step(1.0)
    step(1.0)
    assert written.numpy() == 4


def calling_back(fn):
    """Returns a step that calls `fn` in a callback."""
    return lambda: jax.experimental.io_callback(
        lambda: [fn()] and np.float32(0), SCALAR
    )


@pytest.mark.parametrize("engine", [lambda f: f, mirrax.function], ids=["eager", "F"])
def test_an_assignment_to_several_devices_in_a_callback_is_refused(
    two_replicas, engine
):
    with two_replicas.scope():
        w = mirrax.Variable(jnp.zeros(4), aggregation=MEAN)

    step = calling_back(lambda: w.assign_add(jnp.ones(4)) and w.numpy())
    with pytest.raises(Exception, match=r"Return the value from the callback"):
        two_replicas.run(engine(step))
    assert w.numpy().tolist() == [0] * 4


def test_a_combined_read_in_a_callback_is_refused(two_replicas):
    with two_replicas.scope():
        w = mirrax.Variable(
            0.0,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=MEAN,
        )

    with pytest.raises(RuntimeError, match=r"Received: a combined read of variable"):
        two_replicas.run(mirrax.function(calling_back(w.numpy)))


def test_a_callback_can_assign_a_variable_of_one_device(two_replicas):
    count = mirrax.Variable(0.0)
    step = mirrax.function(calling_back(lambda: count.assign_add(1.0)))
    step()
    step()
    assert float(count.numpy()) == 2


def counting(variable, fn):
    """Returns a function that adds 1 to `variable`, and calls `fn` before."""

    @mirrax.function
    def step():
        before = variable.value
        jax.experimental.io_callback(lambda: [fn()] and np.float32(0), SCALAR)
        variable.assign(before + 1)

    return step


def in_a_thread(fn):
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()


@pytest.mark.parametrize("who", [lambda fn: fn(), in_a_thread], ids=["own", "thread"])
def test_a_value_that_is_assigned_meanwhile_is_not_lost(who):
    variable = mirrax.Variable(0.0)
    step = counting(variable, lambda: who(lambda: variable.assign(10.0)))
    with pytest.raises(RuntimeError, match=r"'Variable:0' was modified while"):
        step()
    assert variable.numpy() == 10


def test_a_value_that_a_program_gives_meanwhile_is_not_lost():
    variable = mirrax.Variable(0.0)
    other = mirrax.function(lambda: [variable.assign_add(10.0)])
    with pytest.raises(RuntimeError, match="was modified while"):
        counting(variable, lambda: in_a_thread(other))()
    assert variable.numpy() == 10


def test_others_may_read_meanwhile():
    variable, seen = mirrax.Variable(0.0), []
    counting(variable, lambda: in_a_thread(lambda: seen.append(variable.numpy())))()
    assert (seen, variable.numpy()) == ([0], 1)


def test_a_value_that_is_assigned_during_an_uneven_step_is_not_lost(
    two_replicas, monkeypatch
):
    variable = create(two_replicas, jnp.float32(0))

    @mirrax.function
    def step(part):
        jax.debug.callback(lambda _: None, part.sum())
        total = mirrax.get_replica_context().all_reduce("SUM", part.sum())
        variable.assign_add(total)

    parts = mirrax.PerReplica((jnp.ones(2), jnp.ones(1)))
    two_replicas.run(step, args=(parts,))
    # What another thread would do before the call goes on.
    monkeypatch.setattr(
        Failures, "raise_first", lambda *_: in_a_thread(lambda: variable.assign(10.0))
    )
    with pytest.raises(RuntimeError, match="was modified while"):
        two_replicas.run(step, args=(parts,))
    assert variable.numpy() == 10


def test_a_function_with_callbacks_is_refused_in_a_callback(strategy):
    inner = mirrax.function(lambda: jax.debug.callback(lambda: None))
    strategy.run(inner)
    outer = mirrax.function(calling_back(lambda: strategy.run(inner)))
    with pytest.raises(RuntimeError, match="would wait there forever"):
        strategy.run(outer)


def test_a_callback_can_run_a_function_that_changes_a_variable_of_the_program():
    variable = mirrax.Variable(jnp.zeros(3))
    inner = mirrax.function(lambda: [variable.assign_add(jnp.ones(3))])
    inner()

    @mirrax.function
    def outer():
        before = variable.value
        jax.debug.callback(lambda _: inner() and None, before)
        return before * 2

    assert outer().tolist() == [2, 2, 2]
    assert variable.numpy().tolist() == [2, 2, 2]


def test_a_callback_in_another_thread_can_assign_what_the_program_reads():
    """XLA runs callbacks on large arrays in threads of its own."""
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        variable = mirrax.Variable(jnp.zeros(3))
    in_other_thread = lambda x: in_a_thread(lambda: variable.assign(x + 1))  # noqa: E731

    @mirrax.function
    def step():
        jax.debug.callback(in_other_thread, variable.value * 2)

    for _ in range(3):
        strategy.run(step)
    assert variable.numpy().tolist() == [7, 7, 7]


@pytest.mark.parametrize("checks_nan", [False, True], ids=["callbacks", "nan"])
def test_threads_with_such_programs_lose_no_update(strategy, checks_nan):
    with strategy.scope():
        variable = mirrax.Variable(0)

    def make():
        @mirrax.function
        def step():
            if not checks_nan:
                jax.debug.callback(lambda _: None, variable.value)
            variable.assign_add(1)

        return step

    def work(step):
        with jax.debug_nans(checks_nan):
            for _ in range(20):
                strategy.run(step)

    threads = [threading.Thread(target=work, args=(make(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert variable.numpy() == 40


def test_a_function_that_prints_and_writes_is_refused_in_a_callback(two_replicas):
    """Before it waits for its turn, which the program has that called back."""
    with two_replicas.scope():
        outside = mirrax.Variable(0.0, aggregation=MEAN)
    inside = mirrax.Variable(0.0)

    @mirrax.function
    def inner():
        jax.debug.callback(lambda: None)
        inside.assign_add(1.0)

    def call_back(x):
        inner()
        return np.float32(x)

    @mirrax.function
    def outer(x):
        outside.assign_add(jax.experimental.io_callback(call_back, SCALAR, x))

    with pytest.raises(RuntimeError, match="would wait there forever"):
        two_replicas.run(outer, args=(jnp.float32(1),))
    assert (outside.numpy(), inside.numpy()) == (0, 0)


def test_a_function_that_is_checked_for_nan_can_be_called_in_a_callback(two_replicas):
    with two_replicas.scope():
        outside = mirrax.Variable(0.0, aggregation=MEAN)
    inside = mirrax.Variable(0.0)
    inner = mirrax.function(lambda: [inside.assign_add(1.0)])

    def call_back(x):
        with jax.debug_nans(True):
            inner()
        return np.float32(x)

    @mirrax.function
    def outer(x):
        outside.assign_add(jax.experimental.io_callback(call_back, SCALAR, x))

    two_replicas.run(outer, args=(jnp.float32(1),))
    assert (outside.numpy(), inside.numpy()) == (1, 2)
