"""Batch normalization of Flax and Equinox over the batches of all replicas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import mirrax
from mirrax.data import Dataset
from tests.conftest import mirrored

# Sorted, so that the means of the replicas' rows are far apart.
X = np.sort(np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32), axis=0)


def parts_of(strategy, rows=8):
    (batch,) = strategy.experimental_distribute_dataset(
        Dataset.from_tensor_slices(X[:rows]).batch(8)
    )
    return batch


def joined(strategy, value):
    return np.concatenate(strategy.experimental_local_results(value))


def train_nnx(strategy, **options):
    """Returns what an NNX model with normalization has learned in three steps."""
    model = nnx.Sequential(
        nnx.Linear(3, 4, rngs=nnx.Rngs(1)),
        nnx.BatchNorm(4, rngs=nnx.Rngs(0), **options),
        nnx.Linear(4, 1, rngs=nnx.Rngs(2)),
    )
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

    @mirrax.function
    def step(x):
        _, gradients = nnx.value_and_grad(
            lambda model: jnp.mean((model(x) - x[:, :1]) ** 2)
        )(model)
        gradients = mirrax.get_replica_context().all_reduce("MEAN", gradients)
        optimizer.update(model, gradients)

    for _ in range(3):
        strategy.run(step, (parts_of(strategy),))
    norm = model.layers[1]
    return [np.asarray(v[...]) for v in (model.layers[0].kernel, norm.mean, norm.var)]


@pytest.mark.parametrize("count", [1, 4])
def test_nnx_with_the_axis_trains_as_one_device(count):
    expected = train_nnx(mirrored(1))
    for found, wanted in zip(train_nnx(mirrored(count), axis_name="replica"), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_nnx_without_the_axis_normalizes_the_rows_of_its_replica(two_replicas):
    norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))
    step = mirrax.function(norm.__call__)
    out = two_replicas.run(step, (parts_of(two_replicas),))
    for part in out.values:
        np.testing.assert_allclose(part.mean(0), 0, atol=1e-5)


def test_nnx_with_the_axis_needs_a_function(two_replicas):
    norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0), axis_name="replica")
    with pytest.raises(NameError, match="unbound axis name: replica"):
        two_replicas.run(norm.__call__, (parts_of(two_replicas),))


@pytest.mark.parametrize("mode", ["batch", "ema"])
def test_equinox_with_both_axes_equals_one_device(two_replicas, mode):
    def apply(norm, state, x):
        over_rows = jax.vmap(
            norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None)
        )
        return over_rows(x, state)

    def make(axes):
        norm = eqx.nn.BatchNorm(3, axis_name=axes, mode=mode, momentum=0.5)
        return norm, eqx.nn.State(norm)

    expected, kept = apply(*make("batch"), X)
    norm, state = make(("batch", "replica"))
    step = mirrax.function(lambda state, x: apply(norm, state, x))
    found, state = two_replicas.run(step, (state, parts_of(two_replicas)))
    np.testing.assert_allclose(joined(two_replicas, found), expected, rtol=1e-4)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(kept)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
