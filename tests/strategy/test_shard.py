"""`strategy.shard`: arrays stored in parts, given to `run` as they are."""

import gc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import mirrax

ROWS, SIZE, OUT = 16, 12, 8


def make_strategy(num_replicas=2):
    return mirrax.MirroredStrategy(
        [f"CPU:{i}" for i in range(num_replicas)], shard_state=100
    )


def batches(strategy, num_rows):
    rows = np.random.default_rng(0).normal(size=(num_rows, SIZE)).astype("f")
    dataset = mirrax.data.Dataset.from_tensor_slices(rows).batch(ROWS)
    return strategy.experimental_distribute_dataset(dataset)


def is_sharded(array):
    return not array.sharding.is_fully_replicated


def train_with_optax(strategy, place, donate, num_rows):
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2))
    rng = np.random.default_rng(1)
    params = {"w": rng.normal(size=(SIZE, OUT)).astype("f"), "b": np.zeros(OUT, "f")}
    state = place((params, optimizer.init(params)))

    @mirrax.function(donate_argnums=donate)
    def step(state, x):
        params, slots = state
        loss = lambda p: jnp.sum(jnp.tanh(x @ p["w"] + p["b"]) ** 2) / ROWS  # noqa: E731
        grads = jax.grad(loss)(params)
        grads = mirrax.get_replica_context().all_reduce("SUM", grads)
        changes, slots = optimizer.update(grads, slots, params)
        return optax.apply_updates(params, changes), slots

    for batch in batches(strategy, num_rows):
        state = strategy.run(step, (state, batch))
    return state, step


@pytest.mark.parametrize("donate", [(0,), ()], ids=["donated", "kept"])
def test_state_of_optax_stays_sharded_and_equals_mirrored(donate):
    strategy = make_strategy()
    # The last batch is partial.
    num_rows = 3 * ROWS + 5
    plain, _ = train_with_optax(strategy, lambda tree: tree, donate, num_rows)
    state, step = train_with_optax(strategy, strategy.shard, donate, num_rows)
    params, slots = state
    assert is_sharded(params["w"])
    assert not is_sharded(params["b"])
    assert sum(is_sharded(leaf) for leaf in jax.tree.leaves(slots)) == 2
    assert step.trace_count == 2  # Even and uneven.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-6), plain, state
    )


def train_equinox(strategy, place):
    model = eqx.nn.MLP(SIZE, OUT, 24, depth=2, key=jax.random.key(0))
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(1e-2))
    arrays = eqx.filter(model, eqx.is_inexact_array)
    model, slots = place((model, optimizer.init(arrays)))

    @mirrax.function(donate_argnums=(0, 1))
    def step(model, slots, x):
        loss = lambda m: jnp.sum(jax.vmap(m)(x) ** 2) / ROWS  # noqa: E731
        grads = eqx.filter_grad(loss)(model)
        grads = mirrax.get_replica_context().all_reduce("SUM", grads)
        arrays = eqx.filter(model, eqx.is_inexact_array)
        changes, slots = optimizer.update(grads, slots, arrays)
        return eqx.apply_updates(model, changes), slots

    for batch in batches(strategy, 50 * ROWS):
        model, slots = strategy.run(step, (model, slots, batch))
    assert step.trace_count == 1
    return model, eqx.filter((model, slots), eqx.is_array)


def test_equinox_model_and_slots_stay_sharded_and_equal_mirrored():
    strategy = make_strategy(4)
    _, plain = train_equinox(strategy, lambda tree: tree)
    model, state = train_equinox(strategy, strategy.shard)
    assert all(is_sharded(layer.weight) for layer in model.layers)
    # The weights of 3 layers, and their two moments; biases are below the threshold.
    assert sum(map(is_sharded, jax.tree.leaves(state))) == 9
    assert model.activation is jax.nn.relu
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6),
        plain,
        state,
    )


def test_sharded_argument_can_be_given_to_an_eager_run():
    strategy = make_strategy()
    w = strategy.shard(np.arange(96, dtype="f").reshape(SIZE, OUT))
    totals = strategy.run(jnp.sum, (w,))
    assert [float(part) for part in totals.values] == [4560, 4560]


def test_sharded_and_whole_arrays_of_one_kind_get_programs_of_their_own():
    strategy = make_strategy()
    whole = jnp.ones((SIZE, OUT))
    double = mirrax.function(lambda w: w * 2)
    for given in (whole, strategy.shard(whole), whole):
        result = strategy.run(double, (given,))
        np.testing.assert_array_equal(result, 2 * np.ones((SIZE, OUT)))
        assert is_sharded(result) == is_sharded(given)


def test_state_stays_sharded_beside_more_results_of_its_kind():
    strategy = make_strategy()
    state = strategy.shard((np.ones((SIZE, OUT), "f"), np.ones((SIZE, OUT), "f")))

    @mirrax.function
    def step(params, slots):
        gradients = params * 0.5
        return gradients, params - gradients, slots + gradients

    for _ in range(3):
        gradients, *state = strategy.run(step, tuple(state))
        assert all(map(is_sharded, (gradients, *state)))
    np.testing.assert_array_equal(state[0], np.full((SIZE, OUT), 1 / 8))


def test_sizes_that_do_not_divide_stay_whole():
    strategy = make_strategy(3)
    state = strategy.shard({"odd": np.ones((64, 64)), "even": np.ones((63, 64))})
    assert not is_sharded(state["odd"])
    assert [s.data.shape for s in state["even"].addressable_shards] == [(21, 64)] * 3


def test_shard_leaves_alone_what_is_no_array_and_what_is_sharded():
    strategy = make_strategy()
    first = strategy.shard({"w": np.ones((SIZE, OUT)), "name": "dense", "n": 3})
    second = strategy.shard(first)
    assert second["w"] is first["w"]
    assert (second["name"], second["n"]) == ("dense", 3)


def test_donating_what_shard_returns_leaves_the_original_alone():
    strategy = make_strategy()
    small = strategy.run(mirrax.function(lambda: jnp.ones(2)))
    step = mirrax.function(lambda w: w + 1, donate_argnums=0)
    np.testing.assert_array_equal(strategy.run(step, (strategy.shard(small),)), [2, 2])
    np.testing.assert_array_equal(small, [1, 1])


def test_array_that_another_strategy_sharded_is_gathered():
    data = np.arange(96, dtype="f").reshape(SIZE, OUT)
    double = mirrax.function(lambda w: w * 2)
    given = make_strategy(2).shard(data)
    other = make_strategy(4)
    for _ in range(2):
        result = other.run(double, (given,))
        np.testing.assert_array_equal(result, 2 * data)
        assert not is_sharded(result)
    assert double.trace_count == 1


def test_array_on_a_mesh_of_the_user_is_refused_by_a_compiled_run():
    strategy = make_strategy()
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    given = jax.device_put(np.arange(96, dtype="f").reshape(SIZE, OUT), rows)
    double = mirrax.function(lambda w: w * 2)
    with pytest.raises(ValueError, match=r"(?s)whole, or .*\(12, 8\).*'data'.*shard\("):
        strategy.run(double, (given,))
    result = strategy.run(double, (strategy.shard(given),))
    np.testing.assert_array_equal(result, 2 * np.asarray(given))
    assert is_sharded(result)


def test_shard_inside_run_is_refused():
    strategy = make_strategy()
    with pytest.raises(RuntimeError, match=r"strategy\.shard"):
        strategy.run(lambda: strategy.shard(np.ones(100)))


class Normalized(nnx.Module):
    def __init__(self):
        self.linear = nnx.Linear(SIZE, OUT, rngs=nnx.Rngs(0))
        self.norm = nnx.BatchNorm(OUT, axis_name="replica", rngs=nnx.Rngs(0))

    def __call__(self, x):
        return self.norm(self.linear(x))


def train_nnx(strategy, place, make_model, num_rows):
    model = make_model()
    optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
    for part in (model, optimizer):
        nnx.update(part, place(nnx.state(part)))

    @mirrax.function
    def step(x):
        fn = lambda: jnp.sum(jnp.tanh(model(x)) ** 2) / ROWS  # noqa: E731
        _, grads = mirrax.value_and_grad(fn, model)()
        grads = mirrax.get_replica_context().all_reduce("SUM", grads)
        optimizer.update(model, grads)

    for batch in batches(strategy, num_rows):
        strategy.run(step, (batch,))
    return nnx.state(model), nnx.state(optimizer)


def make_linear():
    return nnx.Linear(SIZE, OUT, rngs=nnx.Rngs(0))


@pytest.mark.parametrize(
    ("num_replicas", "make_model", "num_rows"),
    [
        (2, make_linear, 3 * ROWS + 5),
        *[
            pytest.param(n, model, 50 * ROWS, marks=pytest.mark.slow)
            for n in (1, 2, 4, 8)
            for model in (make_linear, Normalized)[: 1 if n == 1 else 2]
        ],
    ],
)
def test_flax_model_and_optimizer_stay_sharded_and_equal_mirrored(
    num_replicas, make_model, num_rows
):
    strategy = make_strategy(num_replicas)
    plain = train_nnx(strategy, lambda tree: tree, make_model, num_rows)
    state = train_nnx(strategy, strategy.shard, make_model, num_rows)
    count = sum(is_sharded(leaf) for leaf in jax.tree.leaves(state))
    assert count == (3 if num_replicas > 1 else 0)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-6), plain, state
    )


def test_memory_report_shows_the_bytes_on_one_device():
    strategy = make_strategy(4)
    with strategy.scope():
        weight = mirrax.Variable(np.ones((64, 64), "f"))
        slot = mirrax.Variable(np.ones((64, 64), "f"), trainable=False)
        count = mirrax.Variable(0, trainable=False)

    @mirrax.function
    def step(x):
        slot.assign(slot * 0.9 + weight * x)
        weight.assign_sub(slot * 0.1)
        count.assign_add(1)

    assert str(strategy.memory_report()) == (
        "on one device  weights  other state  arguments  temporary"
    )
    strategy.run(step, (jnp.float32(1),))
    report = strategy.memory_report()
    (program,) = report.programs
    assert (program.name, program.weights, program.state) == ("step", 4096, 4100)
    assert program.arguments == 4
    assert "4.1 kB" in str(report)
    assert ">4.1 kB</td>" in report._repr_html_()


def test_memory_report_knows_functions_around_run():
    strategy = make_strategy()
    with strategy.scope():
        weight = mirrax.Variable(np.ones((64, 32), "f"))

    @mirrax.function
    def train_step(x):
        strategy.run(lambda: weight.assign_sub(weight * x))

    train_step(jnp.float32(0.1))
    (program,) = strategy.memory_report().programs
    assert (program.name, program.weights) == ("train_step", 4096)
    del train_step
    gc.collect()
    assert strategy.memory_report().programs == ()


def test_memory_report_counts_slots_of_nnx_as_other_state():
    strategy = make_strategy()
    model = nnx.Linear(SIZE, OUT, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    @mirrax.function
    def step(x):
        grads = nnx.grad(lambda m: jnp.sum(m(x) ** 2))(model)
        optimizer.update(model, mirrax.get_replica_context().all_reduce("SUM", grads))

    for batch in batches(strategy, ROWS):
        strategy.run(step, (batch,))
    (program,) = strategy.memory_report().programs
    size = 4 * (SIZE * OUT + OUT)
    assert program.weights == size
    assert size <= program.state <= size + 8
