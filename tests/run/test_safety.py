"""Variables survive what happens around the programs that change them."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from tests.programs import create


def test_results_are_new_containers_at_each_call():
    step = mirrax.function(lambda: {"log": []})
    step()["log"].append(1)
    assert step() == {"log": []}


@pytest.mark.parametrize(
    ("check", "compute"),
    [(jax.debug_nans, lambda x: x / x), (jax.debug_infs, lambda x: 1 / x)],
    ids=["nan", "infinity"],
)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["first_call", "compiled"])
def test_variable_stays_as_it_was_when_a_check_of_results_raises(
    strategy, check, compute, is_compiled
):
    variable = create(strategy, jnp.ones(64))

    @mirrax.function
    def step(x):
        variable.assign(variable + 1)
        return compute(x)

    if is_compiled:
        strategy.run(step, args=(1.0,))
    before = variable.numpy().tolist()
    with check(True), pytest.raises(FloatingPointError):
        strategy.run(step, args=(0.0,))
    assert variable.numpy().tolist() == before


def test_variable_can_be_read_while_another_thread_trains(two_replicas):
    variable = create(two_replicas, jnp.zeros(64))
    step = mirrax.function(lambda: [variable.assign_add(jnp.ones(64))])
    errors, is_done = [], threading.Event()

    def watch():
        while not is_done.is_set():
            try:
                seen = variable.numpy()
                if len(set(seen.tolist())) != 1:
                    errors.append(seen)
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(200):
        two_replicas.run(step)
    is_done.set()
    thread.join()
    assert errors == []
    assert variable.numpy().tolist() == [200] * 64


def in_threads(*functions, times=50):
    """Calls each function `times` times in a thread of its own; returns the errors."""
    errors = []

    def repeat(function):
        try:
            for _ in range(times):
                function()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_no_thread_loses_an_update_of_a_plain_variable():
    variable = mirrax.Variable(jnp.zeros(8))
    step = mirrax.function(lambda: [variable.assign_add(jnp.ones(8))])
    errors = in_threads(
        lambda: variable.assign_add(jnp.ones(8)),
        lambda: variable.assign_sub(np.full(8, -1, np.float32)),
        step,
        step,
        variable.numpy,
        lambda: jnp.sum(variable + 1).block_until_ready(),
    )
    assert errors == []
    assert variable.numpy().tolist() == [200] * 8


def test_no_thread_loses_an_update_of_a_mirrored_variable(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(
            jnp.zeros(8), aggregation=mirrax.VariableAggregation.MEAN
        )

    def add():
        variable.assign_add(jnp.ones(8))

    step = mirrax.function(add)
    errors = in_threads(
        add,
        lambda: two_replicas.run(add),
        lambda: two_replicas.run(step),
        lambda: variable.assign_add(np.ones(8, np.float32)),
        variable.numpy,
        lambda: two_replicas.run(lambda: variable * 2),
        lambda: [v.value for v in variable.values],
    )
    assert errors == []
    assert variable.numpy().tolist() == [200] * 8


def test_no_thread_loses_an_update_of_an_on_read_variable(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(
            0.0,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
        )

    def add():
        variable.assign_add(1.0)

    step = mirrax.function(add)
    errors = in_threads(
        lambda: two_replicas.run(add),
        lambda: two_replicas.run(step),
        variable.numpy,
        lambda: float(variable),
    )
    assert errors == []
    assert float(variable.numpy()) == 200
