import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import mirrax
from tests.programs import create, engines

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = X.sum(axis=1)


def loss_of(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


@pytest.mark.parametrize("micro_batches", [1, 4])
@engines
def test_pieces_give_what_the_big_batch_gives(engine, two_replicas, micro_batches):
    strategy = two_replicas
    w = create(strategy, jnp.ones(3) * 2)
    data = mirrax.data.Dataset.from_tensor_slices((X, Y)).batch(12)
    batch = next(iter(strategy.experimental_distribute_dataset(data)))

    def train(x, y):
        step = mirrax.value_and_grad(lambda x, y: loss_of(w.value, x, y), w)
        return mirrax.accumulate_gradients(step, micro_batches)(x, y)

    loss, gradient = strategy.run(engine(train), batch)
    expected = jax.value_and_grad(loss_of)(jnp.ones(3) * 2, X, Y)
    first = strategy.experimental_local_results
    np.testing.assert_allclose(first(loss)[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(first(gradient)[0], expected[1], rtol=1e-5)


@pytest.mark.parametrize("sizes", [(7, 5), (12, 0)], ids=str)
@engines
def test_uneven_parts_are_weighted_by_their_rows(engine, two_replicas, sizes):
    cut = sizes[0]
    parts = [mirrax.PerReplica((a[:cut], a[cut:])) for a in (X, Y)]

    def train(x, y):
        return mirrax.accumulate_gradients(
            lambda x, y: jax.value_and_grad(loss_of)(jnp.ones(3) * 2, x, y), 3
        )(x, y)

    loss, gradient = two_replicas.run(engine(train), parts)
    expected = jax.value_and_grad(loss_of)(jnp.ones(3) * 2, X, Y)
    first = two_replicas.experimental_local_results
    np.testing.assert_allclose(first(loss)[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(first(gradient)[0], expected[1], rtol=1e-5)


@engines
def test_shares_of_a_mean_are_refused_in_pieces(engine, two_replicas):
    # Each piece would divide by its own rows: wrong where the parts are uneven.
    def train(y):
        return mirrax.accumulate_gradients(mirrax.nn.compute_average_loss, 2)(y)

    y = mirrax.PerReplica((Y[:7], Y[7:]))
    with pytest.raises(ValueError, match=r"plain mean of its piece.*`jnp.mean"):
        two_replicas.run(engine(train), args=(y,))


def test_replicas_meet_once(two_replicas, monkeypatch):
    calls = []
    all_reduce = mirrax.ReplicaContext.all_reduce

    def counted(context, *args, **kwargs):
        calls.append(args)
        return all_reduce(context, *args, **kwargs)

    monkeypatch.setattr(mirrax.ReplicaContext, "all_reduce", counted)
    step = mirrax.accumulate_gradients(jax.value_and_grad(jnp.mean), 4)
    two_replicas.run(mirrax.function(step), (Y,))
    assert len(calls) == 1


def test_weights_count_what_they_say():
    mask = np.array([1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1], np.float32)

    def step(y, mask):
        return (y * mask).sum() / mask.sum()

    accumulated = mirrax.accumulate_gradients(
        step, 6, weight=lambda y, mask: mask.sum()
    )
    found = mirrax.function(accumulated)(Y, mask)
    np.testing.assert_allclose(found, (Y * mask).sum() / mask.sum(), rtol=1e-5)


def test_whole_numbers_are_added_up():
    accumulated = mirrax.accumulate_gradients(lambda y: {"right": (y > 0).sum()}, 5)
    assert int(mirrax.function(accumulated)(Y)["right"]) == (Y > 0).sum()


def test_half_precision_is_added_up_in_single():
    values = jnp.full((512,), 1.01, jnp.bfloat16)
    mean = mirrax.function(mirrax.accumulate_gradients(lambda x: x.mean(), 512))(values)
    assert mean.dtype == jnp.bfloat16
    assert float(mean) == float(values[0])


@engines
def test_variables_written_by_a_piece_are_carried_to_the_next(engine, two_replicas):
    count = create(two_replicas, 0.0)
    rngs = nnx.Rngs(0)

    def step(y):
        count.assign_add(1.0)
        rngs()
        return y.mean()

    two_replicas.run(engine(mirrax.accumulate_gradients(step, 4)), (Y,))
    assert float(count) == 4.0
    assert int(rngs.default.count[...]) == 4


def test_accumulation_is_allowed_in_scan_and_cond(two_replicas):
    def train(x, y):
        def body(w, _):
            def step(x, y):
                return jax.grad(loss_of)(w, x, y)

            gradient = mirrax.accumulate_gradients(step, 2)(x, y)
            return w - 0.1 * gradient, None

        return jax.lax.scan(body, jnp.zeros(3), length=3)[0]

    found = two_replicas.run(mirrax.function(train), (X, Y))
    w = jnp.zeros(3)
    for _ in range(3):
        w = w - 0.1 * jax.grad(loss_of)(w, X, Y)
    np.testing.assert_allclose(found, w, rtol=1e-4, atol=1e-6)

    def maybe(x, y):
        def update():
            return mirrax.accumulate_gradients(
                lambda x, y: jax.grad(loss_of)(jnp.zeros(3), x, y), 2
            )(x, y)

        return jax.lax.cond(jnp.bool_(True), update, lambda: jnp.zeros(3))

    found = two_replicas.run(mirrax.function(maybe), (X, Y))
    np.testing.assert_allclose(found, jax.grad(loss_of)(jnp.zeros(3), X, Y), rtol=1e-4)


def test_arguments_without_common_rows_are_refused():
    accumulated = mirrax.accumulate_gradients(lambda x, w: x.sum(), 2)
    with pytest.raises(ValueError, match=r"one row for each example.*\[3, 12\]"):
        accumulated(X, jnp.ones(3))


def test_no_pieces_are_refused():
    with pytest.raises(ValueError, match=r"at least 1. Received: 0"):
        mirrax.accumulate_gradients(lambda x: x, 0)
