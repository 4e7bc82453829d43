"""Runs that stop at any batch and resume: the same bits, the same sample order."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
import pytest
from flax import nnx

import mirrax
from mirrax.data import Dataset
from mirrax.train import Checkpoint
from tests.input import several
from tests.programs import mirrored

NUM_STEPS = 9
# An epoch has four steps, the last of them smaller.
X = np.random.default_rng(0).normal(size=(22, 3)).astype(np.float32)


def from_arrays():
    return Dataset.from_tensor_slices(X).shuffle(22, seed=3).batch(6).repeat()


def from_generator():
    rows = Dataset.from_generator(lambda: iter(X), mirrax.TensorSpec((3,), np.float32))
    return rows.shuffle(5, seed=3).map(lambda x: x * 2).repeat().batch(6).prefetch(2)


class NativeRun:
    """Variables, an Optax optimizer, and noise of a generator."""

    def __init__(self, strategy, make_data):
        self._strategy = strategy
        optimizer = optax.adam(0.1)
        with strategy.scope():
            weight = mirrax.Variable(jnp.ones(3))
            moments = jax.tree.map(mirrax.Variable, optimizer.init(jnp.ones(3)))
            noise = mirrax.random.Generator(seed=1)
        data = iter(strategy.experimental_distribute_dataset(make_data()))
        self.state = Checkpoint(
            weight=weight, moments=moments, noise=noise, data=data, step=0
        )
        is_variable = {"is_leaf": lambda leaf: isinstance(leaf, mirrax.Variable)}

        @mirrax.function
        def step(x):
            def loss():
                noisy = x + 0.1 * jax.random.normal(noise.key(), x.shape)
                return jnp.sum((noisy @ weight.value) ** 2)

            gradient = mirrax.value_and_grad(loss, weight)()[1]
            gradient = mirrax.get_replica_context().all_reduce("SUM", gradient)
            old = jax.tree.map(lambda v: v.value, moments, **is_variable)
            updates, new = optimizer.update(gradient, old)
            jax.tree.map(lambda v, n: v.assign(n), moments, new, **is_variable)
            weight.assign_add(updates)

        self._step = step

    def advance(self):
        self._strategy.run(self._step, (next(self.state.data),))
        self.state.step += 1

    def bits(self):
        return self.state.weight.numpy()


class NnxRun:
    """A Flax model with dropout, and its optimizer."""

    def __init__(self, strategy, make_data):
        self._strategy = strategy
        with strategy.scope():
            rngs = nnx.Rngs(0, dropout=1)
            model = nnx.Sequential(
                nnx.Linear(3, 4, rngs=rngs),
                nnx.Dropout(0.5, rngs=rngs),
                nnx.Linear(4, 1, rngs=rngs),
            )
            optimizer = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)
        data = iter(strategy.experimental_distribute_dataset(make_data()))
        self.state = Checkpoint(model=model, optimizer=optimizer, data=data, step=0)

        @mirrax.function
        def step(x):
            gradient = nnx.grad(lambda m: (m(x) ** 2).sum())(model)
            gradient = mirrax.get_replica_context().all_reduce("SUM", gradient)
            optimizer.update(model, gradient)

        self._step = step

    advance = NativeRun.advance

    def bits(self):
        state = nnx.state(self.state.model)
        return np.concatenate(
            [
                np.ravel(leaf)
                for leaf in jax.tree.leaves(nnx.filter_state(state, nnx.Param))
            ]
        )


class KerasRun:
    """A Keras model with dropout, trained by single batches."""

    def __init__(self, strategy, make_data):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            self._model = keras.Sequential(
                [
                    keras.Input((3,)),
                    keras.layers.Dense(4),
                    keras.layers.Dropout(0.5, seed=1),
                    keras.layers.Dense(1),
                ]
            )
            self._model.compile(optimizer="adam", loss="mse")
        self.state = Checkpoint(model=self._model, data=iter(make_data()), step=0)
        self._model.optimizer.build(self._model.trainable_variables)

    def advance(self):
        x = next(self.state.data)
        self._model.train_on_batch(x, x.sum(axis=1, keepdims=True))
        self.state.step += 1

    def bits(self):
        return np.concatenate([np.ravel(w) for w in self._model.get_weights()])


def run_until(run, step):
    while run.state.step < step:
        run.advance()
    return run


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("kind", "make_data", "num_replicas", "stops"),
    [
        (NativeRun, from_generator, 2, (3, 5)),
        slow(NativeRun, from_generator, 1, (1, 2)),
        slow(NativeRun, from_arrays, 2, (4, 7)),
        slow(NativeRun, from_arrays, 2, (3, 3)),
        slow(NnxRun, from_generator, 1, (4, 7)),
        slow(NnxRun, from_arrays, 2, (3, 5)),
        slow(KerasRun, from_generator, 2, (4, 5)),
        slow(KerasRun, from_arrays, 1, (1, 6)),
    ],
)
def test_run_that_stops_twice_ends_with_the_same_bits(
    tmp_path, kind, make_data, num_replicas, stops
):
    strategy = mirrored(num_replicas)
    expected = run_until(kind(strategy, make_data), NUM_STEPS).bits()
    path = None
    for stop in (*stops, NUM_STEPS):
        run = kind(strategy, make_data)
        run.state.restore(path)
        run_until(run, stop)
        path = run.state.save(tmp_path / "ckpt", asynchronous=True)
        run.state.wait()
    np.testing.assert_array_equal(run.bits(), expected)


@pytest.mark.parametrize("make_data", [from_arrays, from_generator])
@pytest.mark.parametrize("workers", [(1, 3), (2, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("stop", [1, 4, 6])
def test_order_of_samples_stays_with_other_numbers_of_workers(make_data, workers, stop):
    def feeds(count):
        return several.open_feeds(make_data, mirrax.data.AutoShardPolicy.DATA, count, 2)

    whole = feeds(1)
    expected = several.rows_of([several.take_step(whole) for _ in range(10)])
    found, states = [], None
    for count, steps in zip((2, *workers), (stop, 2, 8 - stop), strict=True):
        now = feeds(count)
        if states is not None:
            several.restore(now, states)
        found += several.rows_of([several.take_step(now) for _ in range(steps)])
        states = several.save(now)
    assert found == expected
