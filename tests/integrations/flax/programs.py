"""What the workers of the tests do; each function runs in fresh interpreters."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import mirrax

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def train_nnx():
    """Returns what eager and compiled training give."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    return [_train(strategy, engine) for engine in (lambda fn: fn, mirrax.function)]


def _train(strategy, engine):
    # The first values differ between the workers.
    model = nnx.Linear(3, 1, rngs=nnx.Rngs(strategy.topology.worker_index))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    metric = nnx.metrics.Average("loss")

    def step(x, y):
        loss, gradients = nnx.value_and_grad(
            lambda model: jnp.mean((model(x) - y) ** 2)
        )(model)
        gradients = mirrax.get_replica_context().all_reduce("MEAN", gradients)
        optimizer.update(model, gradients)
        metric.update(loss=loss)

    fn = engine(step)
    data = mirrax.data.Dataset.from_tensor_slices((X, Y)).batch(8).repeat(3)
    for batch in strategy.experimental_distribute_dataset(data):
        strategy.run(fn, batch)
    return np.asarray(model.kernel[...]).tolist(), float(metric.compute())


def train_nnx_alone():
    """Returns what one device gives."""
    model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    losses = []
    for _ in range(3):
        loss, gradients = nnx.value_and_grad(
            lambda model: jnp.mean((model(X) - Y) ** 2)
        )(model)
        optimizer.update(model, gradients)
        losses.append(float(loss))
    return jax.tree.map(np.asarray, model.kernel[...]), np.mean(losses)
