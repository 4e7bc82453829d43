"""Mirrored state whose updates the replicas divide: `shard_state="updates"`."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mirrax
from mirrax.strategy import sharding
from mirrax.testing import launch_processes
from tests.run.sharded.test_updates import (
    BFLOAT16,
    MIXED,
    OPTIMIZERS,
    PRECISIONS,
    QUICK_STEPS,
    SIZES,
    STEPS,
    Training,
    assert_close,
    count_operations,
    slow,
)


def make(strategy, value):
    with strategy.scope():
        return mirrax.Variable(value)


@pytest.fixture
def any_size(monkeypatch):
    """Lets replicas divide the updates of small variables, too."""
    monkeypatch.setattr(sharding, "DEFAULT_BYTES", 1)


@pytest.mark.parametrize(
    ("name", "num_replicas", "options"),
    [
        ("clipped", 4, {}),
        pytest.param("adamw", 3, {}, id="padded"),
        pytest.param("momentum", 2, BFLOAT16, id="bfloat16"),
        ("adam", 1, {}),
        *[pytest.param(name, 4, {}, marks=slow) for name in OPTIMIZERS],
        *[pytest.param("adam", n, {}, marks=slow) for n in (1, 2, 8)],
        pytest.param("adamw", 4, MIXED, id="mixed", marks=slow),
        pytest.param("clipped", 4, {"parts": 3}, id="accumulated", marks=slow),
    ],
)
def test_training_gives_what_whole_updates_give(
    any_size, request, name, num_replicas, options
):
    optimizer = OPTIMIZERS[name]
    steps = STEPS if request.node.get_closest_marker("slow") else QUICK_STEPS
    mirrored = Training(num_replicas, False, optimizer, **options).train(steps)
    divided = Training(num_replicas, "updates", optimizer, **options)
    assert type(divided.weights[0]).__name__ == "MirroredVariable"
    found = divided.train(steps)
    assert divided.weights[0].stored.is_fully_replicated
    assert_close(mirrored, found, **PRECISIONS.get(options.get("precision"), {}))


def test_step_scatters_gradients_and_gathers_new_values(any_size):
    text = Training(4, "updates", OPTIMIZERS["momentum"]).compiled().as_text()
    assert count_operations(text, "reduce-scatter") in (1, 3)
    assert count_operations(text, "all-gather") >= 1
    # Of the loss.
    assert count_operations(text, "all-reduce") <= 1


def test_small_variables_are_updated_whole():
    text = Training(4, "updates", OPTIMIZERS["momentum"]).compiled().as_text()
    assert count_operations(text, "reduce-scatter") == 0
    assert count_operations(text, "all-gather") == 0


def test_update_without_a_sum_over_replicas_is_not_divided(any_size):
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], shard_state="updates")
    variable = make(strategy, np.arange(8, dtype="f"))

    @mirrax.function
    def step():
        variable.assign(variable * 0.5)
        return variable.value

    np.testing.assert_array_equal(strategy.run(step), np.arange(8) / 2)
    (function,) = strategy.functions.values()
    (program,) = function.programs
    assert "all-gather" not in program.analyzed()[1].as_text()


def test_partial_batches_branches_and_loops_give_the_same(any_size):
    results = []
    for shard_state in (False, "updates"):
        training = Training(2, shard_state, OPTIMIZERS["multi_steps"])

        @mirrax.function
        def steps(x, step=training.step):
            return mirrax.scan(lambda _, row: (None, step(row)), None, x)[1]

        rows = np.random.default_rng(1).normal(size=(19, SIZES[0])).astype("f")
        dataset = mirrax.data.Dataset.from_tensor_slices(rows).batch(8)
        for batch in training.strategy.experimental_distribute_dataset(dataset):
            training.strategy.run(training.step, (batch,))
        training.strategy.run(steps, (jnp.stack([rows[:8], rows[8:16]]),))
        results.append(training.result())
    assert_close(*results)


def test_other_names_are_refused():
    with pytest.raises(ValueError, match=r"or 'updates'.*Received: shard_state='all'"):
        mirrax.MirroredStrategy(["CPU:0"], shard_state="all")


def train_on_workers(shard_state):
    """Runs on the workers: returns the weight after some steps of Adam."""
    strategy = mirrax.MultiWorkerMirroredStrategy(shard_state=shard_state)
    optimizer = optax.adam(1e-2)
    rng = np.random.default_rng(0)
    start = rng.normal(size=(400, 400)).astype("f")
    weight = make(strategy, start)
    slots = [make(strategy, np.zeros_like(start)) for _ in range(2)]
    count = make(strategy, np.int32(0))

    @mirrax.function
    def step(x):
        loss = lambda: jnp.sum((x @ weight.value) ** 2) / 32  # noqa: E731
        _, gradient = mirrax.value_and_grad(loss, weight)()
        gradient = mirrax.get_replica_context().all_reduce("SUM", gradient)
        state = optax.ScaleByAdamState(count.value, *(s.value for s in slots))
        change, (state, _) = optimizer.update(gradient, (state, optax.EmptyState()))
        weight.assign_add(change)
        count.assign(state.count)
        slots[0].assign(state.mu)
        slots[1].assign(state.nu)

    rows = rng.normal(size=(96, 400)).astype("f")
    dataset = mirrax.data.Dataset.from_tensor_slices(rows).batch(32)
    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(step, (batch,))
    return weight.numpy(), slots[1].numpy()


@pytest.mark.slow
def test_workers_give_what_whole_updates_give():
    whole, divided = (
        launch_processes(train_on_workers, 2, (shard_state,), devices=2)
        for shard_state in (False, "updates")
    )
    for one, other in zip(whole[0], divided[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    assert all(map(np.array_equal, *divided))
