"""One training script gives the same parameters on any number of replicas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from tests.devices.fresh import run_fresh

BATCH_SIZE, STEPS = 16, 50
RATE, DECAY, LARGEST_NORM = 0.1, 1e-3, 0.5


def initial(*shapes):
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype("float32")
        for shape in shapes
    ]


def mlp(x, weights):
    first, second, third = weights
    hidden = jnp.tanh(x.reshape(x.shape[0], -1) @ first.value)
    return jnp.tanh(hidden @ second.value) @ third.value


def cnn(x, weights):
    kernel, narrow, dense = weights
    dimensions = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(
        x, kernel.value, (1, 1), "SAME", dimension_numbers=dimensions
    )
    x = jax.lax.conv_general_dilated(
        jnp.tanh(x), narrow.value, (2, 2), "SAME", dimension_numbers=dimensions
    )
    return jnp.tanh(x).reshape(x.shape[0], -1) @ dense.value


MODELS = {
    "mlp": (mlp, [(64, 32), (32, 16), (16, 4)]),
    "cnn": (cnn, [(3, 3, 1, 4), (3, 3, 4, 4), (64, 4)]),
}


def train(strategy, model, shapes):
    """Trains with clipped gradients and decay; returns parameters and last loss."""
    with strategy.scope():
        weights = [mirrax.Variable(value) for value in initial(*shapes)]
        losses = mirrax.Variable(0.0)

    def loss(x, y):
        scores = jax.nn.log_softmax(model(x, weights))
        return -jnp.sum(scores * jax.nn.one_hot(y, 4)) / BATCH_SIZE

    @mirrax.function
    def step(x, y):
        result = mirrax.value_and_grad(loss, weights)(x, y)
        value, gradients = mirrax.get_replica_context().all_reduce("SUM", result)
        norm = jnp.sqrt(sum(jnp.sum(g**2) for g in gradients))
        scale = jnp.minimum(1.0, LARGEST_NORM / norm)
        for weight, gradient in zip(weights, gradients):
            weight.assign_sub(RATE * (scale * gradient + DECAY * weight))
        losses.assign(value)

    for x, y in batches():
        strategy.run(step, args=(split(strategy, x), split(strategy, y)))
    return [weight.numpy() for weight in weights], float(losses)


def batches():
    rng = np.random.default_rng(1)
    pictures = rng.normal(size=(4, 8, 8, 1))
    for _ in range(STEPS):
        y = rng.integers(0, 4, BATCH_SIZE)
        x = pictures[y] + 0.3 * rng.normal(size=(BATCH_SIZE, 8, 8, 1))
        yield x.astype("float32"), y.astype("int32")


def split(strategy, rows):
    pieces = np.split(rows, strategy.num_replicas_in_sync)
    return strategy.experimental_distribute_values_from_function(
        lambda context: jnp.asarray(pieces[context.replica_id_in_sync_group])
    )


@pytest.fixture(scope="module", params=MODELS, ids=str)
def on_one_replica(request):
    """The name of a model, and what training it on one device gives."""
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    return request.param, train(strategy, *MODELS[request.param])


def test_training_learns(on_one_replica):
    _, (weights, loss) = on_one_replica
    assert loss < 0.8
    assert all(np.isfinite(weight).all() for weight in weights)


@pytest.mark.parametrize("num_replicas", [2, 8])
def test_training_gives_the_same_parameters(on_one_replica, num_replicas):
    name, (expected, expected_loss) = on_one_replica
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(num_replicas)])
    weights, loss = train(strategy, *MODELS[name])
    [
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=2e-6)
        for own, other in zip(weights, expected)
    ]
    assert loss == pytest.approx(expected_loss, rel=1e-5)


# Nothing waits for a step, so that many are under way at once.
MANY_STEPS = """
import jax, jax.numpy as jnp, mirrax

mirrax.config.set_logical_devices("CPU", 8)
strategy = mirrax.MirroredStrategy()
with strategy.scope():
    total = mirrax.Variable(jnp.zeros(256))

@mirrax.function
def step(x):
    number = mirrax.get_replica_context().replica_id_in_sync_group
    own = jnp.sin(x) ** 2 + jnp.cos(x) ** 2 + number
    total.assign_add(mirrax.get_replica_context().all_reduce("MEAN", own) / 1000)

for _ in range(1000):
    strategy.run(step, args=(jnp.ones(256),))
print(strategy.num_replicas_in_sync, total.numpy().mean().round(2))
"""


def test_a_thousand_steps_never_stick():
    assert run_fresh(MANY_STEPS) == "8 4.5"
