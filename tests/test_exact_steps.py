"""The steps that README, pages and examples teach are exact on several replicas.

25 rows in batches of 16: of the last 9 rows, four replicas get 3, 3, 3 and 0.
"""

import logging

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from flax.training.train_state import TrainState

import mirrax
from examples import equinox_optax, linen
from examples import nnx as nnx_example
from tests.pages import blocks, run
from tests.programs import engines, mirrored

X = np.random.default_rng(0).normal(size=(25, 3)).astype(np.float32)
Y = np.sin(X).sum(axis=1, keepdims=True)
PLACES = '["CPU:0", "CPU:1"]'


def batches(strategy):
    data = mirrax.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    return strategy.experimental_distribute_dataset(data)


def require_equal(train):
    """One replica and four, of which one has no rows in the end, give the same."""
    expected, found = train(mirrored(1)), train(mirrored(4))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6),
        found,
        expected,
    )


def executed(program, num_replicas):
    """Runs a program that names two devices on so many, and returns its names."""
    assert program.count(PLACES) == 1
    names = {}
    exec(program.replace(PLACES, places(num_replicas)), names)
    return names


def places(num_replicas):
    return repr([f"CPU:{index}" for index in range(num_replicas)])


def test_readme_step_is_that_of_one_replica():
    program = blocks("README.md")[0]

    def train(strategy):
        names = executed(program, strategy.num_replicas_in_sync)
        return np.asarray(names["w"]), float(names["loss"])

    require_equal(train)


def test_page_of_variables_trains_like_one_replica():
    def train(strategy):
        program = blocks("docs/variables.md")[-1]
        names = executed(program, strategy.num_replicas_in_sync)
        return names["w"].numpy(), names["seen"].numpy()

    require_equal(train)


def test_page_of_models_trains_like_one_replica():
    def train(strategy):
        devices = places(strategy.num_replicas_in_sync)
        page = "docs/jax_models.md"
        names = run(page, edit=lambda block: block.replace(PLACES, devices))
        model = nnx.state(names["model"])
        return jax.tree.map(np.asarray, (model, names["totals"]))

    require_equal(train)


def test_nnx_example_trains_like_one_replica():
    def train(strategy):
        model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
        metrics = nnx.metrics.Average("loss")
        step = nnx_example.create_step(model, optimizer, metrics)
        for batch in batches(strategy):
            strategy.run(step, batch)
        return np.asarray(model.kernel[...]), np.asarray(metrics.compute())

    require_equal(train)


def test_equinox_example_trains_like_one_replica():
    def train(strategy):
        model = eqx.nn.Linear(3, 1, key=jax.random.key(0))
        parameters, static = eqx.partition(model, eqx.is_array)
        optimizer = optax.sgd(0.1)
        step = equinox_optax.create_step(optimizer, static)
        state = parameters, optimizer.init(parameters)
        for batch in batches(strategy):
            state, loss = strategy.run(step, (state, *batch))
        return np.asarray(state[0].weight), np.asarray(loss)

    require_equal(train)


def test_linen_example_trains_like_one_replica():
    def train(strategy):
        model = flax.linen.Dense(1)
        state = TrainState.create(
            apply_fn=model.apply,
            params=model.init(jax.random.key(0), jnp.ones((1, 3))),
            tx=optax.sgd(0.1),
        )
        for batch in batches(strategy):
            state, loss = strategy.run(linen.step, (state, *batch))
        return jax.tree.map(np.asarray, (state.params, loss))

    require_equal(train)


def what_is_said(step, strategy, caplog):
    with caplog.at_level(logging.WARNING, "mirrax"):
        for _ in range(2):
            for batch in batches(strategy):
                strategy.run(step, batch)
    return [record.getMessage() for record in caplog.records]


def test_mean_over_uneven_rows_is_said_once(two_replicas, caplog):
    def step(x, y):
        return mirrax.get_replica_context().all_reduce("MEAN", x.sum())

    (said,) = what_is_said(step, two_replicas, caplog)
    assert "different numbers of rows: [5, 4]" in said
    assert "mirrax.nn.compute_average_loss" in said
    assert "test_exact_steps.py:" in said


def test_compiled_mean_over_uneven_rows_is_said_once(two_replicas, caplog):
    @mirrax.function
    def step(x, y):
        return mirrax.get_replica_context().all_reduce("MEAN", x.sum())

    (said,) = what_is_said(step, two_replicas, caplog)
    assert "different numbers of rows: [5, 4]" in said


@engines
def test_mean_over_even_rows_is_not_mentioned(engine, two_replicas, caplog):
    def step(x):
        return mirrax.get_replica_context().all_reduce("MEAN", x.sum())

    parts = mirrax.PerReplica((X[:2], X[2:4]))
    with caplog.at_level(logging.WARNING, "mirrax"):
        two_replicas.run(engine(step), (parts,))
    assert not caplog.records
