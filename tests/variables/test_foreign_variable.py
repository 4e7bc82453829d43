import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.variables import foreign_libraries
from tests.variables.library import MEAN, Box, BoxLibrary


@pytest.fixture(autouse=True)
def connected(monkeypatch):
    """The library takes part during the test, and only then."""
    monkeypatch.setattr(
        foreign_libraries, "_connected", [*foreign_libraries.connected(), BoxLibrary()]
    )


@pytest.fixture(params=[False, True], ids=["eager", "compiled"])
def run(request, strategy):
    def run(fn, *args):
        return strategy.run(mirrax.function(fn) if request.param else fn, args)

    return run


def replica_id():
    return jnp.float32(mirrax.get_replica_context().replica_id_in_sync_group)


def test_read_gives_the_value_to_every_replica(run, strategy):
    box = Box(3.0)
    results = run(lambda: box.get() + replica_id())
    parts = strategy.experimental_local_results(results)
    assert [float(part) for part in parts] == [
        3.0 + i for i in range(strategy.num_replicas_in_sync)
    ]


def test_write_of_an_equal_value_reaches_the_library(run):
    box = Box(3.0)

    def step():
        box.set(box.get() + 1)
        box.set(box.get() * 2)

    run(step)
    run(step)
    assert float(box.held) == 18.0


def test_write_with_mean_combines_the_replicas(run, strategy):
    box = Box(0.0, aggregation=MEAN)
    run(lambda: box.set(replica_id()))
    assert float(box.held) == (strategy.num_replicas_in_sync - 1) / 2


def test_added_changes_of_all_replicas_are_summed(run, strategy):
    box = Box(10.0, adds_changes=True)
    run(lambda: box.set(box.get() + replica_id() + 1))
    count = strategy.num_replicas_in_sync
    assert float(box.held) == 10.0 + count * (count + 1) / 2


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_unequal_write_is_refused(two_replicas, compiled):
    box = Box(0.0)

    def step():
        box.set(replica_id())

    with pytest.raises(ValueError, match=r"(?s)box.*same value"):
        two_replicas.run(mirrax.function(step) if compiled else step)


def test_object_as_argument_is_the_object_itself(run):
    box = Box(1.0)
    seen = []

    def step(given, x):
        seen.append(given)
        given.set(given.get() + x)

    run(step, box, np.float32(4))
    assert all(given is box for given in seen)
    assert float(box.held) == 5.0


def test_value_from_outside_is_used_by_the_next_call(two_replicas):
    box = Box(1.0)

    @mirrax.function
    def step():
        box.set(box.get() + 1)
        return box.get()

    two_replicas.run(step)
    box.held = jnp.float32(10)
    assert float(two_replicas.run(step)) == 11.0
    assert step.over(two_replicas).trace_count == 1


def test_array_that_the_user_holds_is_not_overwritten(two_replicas):
    box = Box(jnp.arange(3.0))

    @mirrax.function
    def step():
        box.set(box.get() + 1)

    first = box.held
    two_replicas.run(step)
    second = box.held
    two_replicas.run(step)
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_array_equal(second, [1, 2, 3])
    np.testing.assert_array_equal(box.held, [2, 3, 4])


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array,
        lambda array: array.addressable_data(0),
        lambda array: array.addressable_shards[1].data,
        lambda array: np.asarray(array.addressable_data(0)),
    ],
    ids=["array", "part", "shard", "numpy"],
)
def test_array_held_in_any_way_is_not_overwritten(two_replicas, hold):
    box = Box(jnp.arange(3.0))

    @mirrax.function
    def step():
        box.set(box.get() + 1)

    two_replicas.run(step)
    held = hold(box.held)
    two_replicas.run(step)
    np.testing.assert_array_equal(held, [1, 2, 3])


def test_array_may_be_in_two_variables(two_replicas):
    first, second = Box(jnp.zeros(2)), Box(jnp.zeros(2))

    @mirrax.function
    def step():
        first.set(first.get() + 1)
        second.set(second.get() + 2)

    two_replicas.run(step)
    second.held = second.own._prepared = first.held
    two_replicas.run(step)
    np.testing.assert_array_equal(first.held, [2, 2])
    np.testing.assert_array_equal(second.held, [3, 3])


def test_change_of_shape_traces_again(two_replicas):
    box = Box(jnp.ones(2))

    @mirrax.function
    def total():
        return box.get().sum()

    assert float(two_replicas.run(total)) == 2.0
    box.held = jnp.ones(5)
    assert float(two_replicas.run(total)) == 5.0


def test_another_strategy_takes_over(two_replicas, four_replicas):
    box = Box(1.0)

    @mirrax.function
    def step():
        box.set(box.get() * 2)

    for strategy in (two_replicas, four_replicas, two_replicas):
        strategy.run(step)
    assert float(box.held) == 8.0


def test_function_without_a_strategy_reads_and_writes():
    box = Box(1.0)

    @mirrax.function
    def step(x):
        box.set(box.get() + x)
        return box.get()

    assert float(step(2.0)) == 3.0
    assert float(box.held) == 3.0


def test_gradient_by_a_foreign_variable(run):
    weight, count = Box(3.0), Box(0.0)

    def loss(x):
        count.set(count.get() + 1)
        return x * weight.get() ** 2

    def step(x):
        value, gradient = mirrax.value_and_grad(loss, weight)(x)
        weight.set(weight.get() - gradient)
        return value

    run(step, np.float32(2))
    assert float(weight.held) == 3.0 - 12.0
    assert float(count.held) == 1.0


def test_gradient_without_a_strategy():
    weight = Box(3.0)
    value, gradient = mirrax.value_and_grad(lambda: weight.get() ** 2, [weight])()
    assert (float(value), float(gradient[0])) == (9.0, 6.0)


def test_tape_takes_gradients_by_foreign_variables(two_replicas):
    weight = Box(3.0)

    @mirrax.function
    def step(x):
        with mirrax.GradientTape() as tape:
            value = x * weight.get() ** 2
        (gradient,) = tape.gradient(value, [weight])
        weight.set(weight.get() - gradient)

    two_replicas.run(step, (np.float32(2),))
    assert float(weight.held) == -9.0


def test_uneven_parts_read_and_write(two_replicas):
    total = Box(0.0)
    parts = mirrax.PerReplica((jnp.ones(3), jnp.ones(2)))

    @mirrax.function
    def step(x):
        summed = mirrax.get_replica_context().all_reduce("SUM", x.sum())
        total.set(total.get() + summed)

    two_replicas.run(step, (parts,))
    two_replicas.run(step, (parts,))
    assert float(total.held) == 10.0


def test_cross_replica_code_of_a_function_reads_and_writes(two_replicas):
    box = Box(1.0)

    @mirrax.function
    def step():
        two_replicas.run(lambda: box.set(box.get() + 1))
        box.set(box.get() * 10)
        return two_replicas.run(lambda: box.get() + 1)

    assert float(step()) == 21.0
    assert float(box.held) == 20.0


def test_nothing_is_routed_outside(two_replicas):
    box = Box(1.0)
    two_replicas.run(box.get)
    assert Box.answering is None
    assert isinstance(box.get(), jax.Array)


def test_failed_run_leaves_nothing_routed(two_replicas):
    def fail():
        raise KeyError("reason")

    with pytest.raises(KeyError):
        two_replicas.run(fail)
    assert Box.answering is None
