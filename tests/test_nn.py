import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import mirrax
from tests.programs import engines

X = np.random.default_rng(0).normal(loc=100, size=(9, 4)).astype(np.float32)
PARTS = mirrax.PerReplica((X[:6], X[6:]))


@engines
def test_shares_of_the_average_add_up_over_uneven_replicas(engine, two_replicas):
    def step(x):
        loss = x[:, 0]
        share = mirrax.nn.compute_average_loss(loss)
        return mirrax.get_replica_context().all_reduce("SUM", share)

    found = two_replicas.run(engine(step), (PARTS,))
    found = two_replicas.experimental_local_results(found)[0]
    np.testing.assert_allclose(found, X[:, 0].mean(), rtol=1e-6)


def test_average_takes_weights_and_a_given_batch_size():
    loss = jnp.array([1.0, 2.0, 3.0])
    found = mirrax.nn.compute_average_loss(
        loss, sample_weight=[1, 0, 2], global_batch_size=10
    )
    assert float(found) == pytest.approx(0.7)


@engines
def test_weighted_shares_add_up_over_parts_of_which_one_is_empty(engine, two_replicas):
    weights = np.linspace(0, 0.1, 9).astype(np.float32)
    rows = (X[:, 0], weights)
    x, weight = (mirrax.PerReplica((each, each[:0])) for each in rows)

    def step(x, weight):
        def share(scale):
            losses = (scale * x) ** 2
            return mirrax.nn.compute_average_loss(losses, sample_weight=weight)

        shares = jax.value_and_grad(share)(jnp.float32(1))
        return mirrax.get_replica_context().all_reduce("SUM", shares)

    found = two_replicas.run(engine(step), (x, weight))
    found = two_replicas.experimental_local_results(found)[0]
    mean = np.average(X[:, 0] ** 2, weights=weights)
    np.testing.assert_allclose(found, [mean, 2 * mean], rtol=1e-5)


def test_average_of_masked_tokens_counts_the_mask():
    losses = jnp.array([[1.0, 2.0], [3.0, 100.0]])
    mask = [[1, 1], [1, 0]]
    found = mirrax.nn.compute_average_loss(losses, sample_weight=mask)
    assert float(found) == pytest.approx(2.0)


def test_average_of_no_weight_is_zero():
    found = mirrax.nn.compute_average_loss(jnp.ones(2), sample_weight=[0, 0])
    assert float(found) == 0.0


def test_average_of_a_scalar_is_refused():
    with pytest.raises(ValueError, match=r"one loss per example"):
        mirrax.nn.compute_average_loss(jnp.float32(1))


@engines
def test_regularization_adds_up_to_itself(engine, four_replicas):
    def step():
        share = mirrax.nn.scale_regularization_loss([jnp.float32(1), jnp.float32(2)])
        return mirrax.get_replica_context().all_reduce("SUM", share)

    found = four_replicas.run(engine(step))
    assert float(four_replicas.experimental_local_results(found)[0]) == 3.0


@engines
def test_moments_are_those_of_the_global_batch(engine, two_replicas):
    def step(x):
        return mirrax.nn.moments(x)

    mean, variance = two_replicas.run(engine(step), (PARTS,))
    first = two_replicas.experimental_local_results
    np.testing.assert_allclose(first(mean)[0], X.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(first(variance)[0], X.var(axis=0), rtol=1e-4)


@engines
def test_gradient_through_moments_is_that_of_the_global_batch(engine, two_replicas):
    def normalized(x):
        mean, variance = mirrax.nn.moments(x)
        return jnp.sum(((x - mean) / jnp.sqrt(variance)) ** 3)

    gradient = two_replicas.run(engine(jax.grad(normalized)), (PARTS,))
    found = np.concatenate(two_replicas.experimental_local_results(gradient))
    np.testing.assert_allclose(found, jax.grad(normalized)(X), rtol=1e-3, atol=1e-3)


def test_batch_norm_of_flax_sees_the_global_batch_by_the_axis(two_replicas):
    norm = nnx.BatchNorm(4, axis_name="replica", rngs=nnx.Rngs(0))
    alone = nnx.BatchNorm(4, rngs=nnx.Rngs(0))
    x = X[:8] - 100  # Flax computes the variance in a way that needs that.
    parts = mirrax.PerReplica((x[:4], x[4:]))
    found = two_replicas.run(mirrax.function(norm), (parts,))
    found = np.concatenate(two_replicas.experimental_local_results(found))
    np.testing.assert_allclose(found, alone(x), rtol=1e-3, atol=1e-3)
