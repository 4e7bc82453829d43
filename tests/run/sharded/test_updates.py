"""Sharded state gives what mirrored state gives, in less memory and fewer messages."""

import itertools
import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mirrax
from mirrax.run.sharded import evaluation, plan
from mirrax.variables import ShardedVariable

SIZES = (24, 36, 5)
ROWS = 24  # Each number of replicas gets parts of equal size.
STEPS = 50
QUICK_STEPS = 5


def make_strategy(num_replicas, shard_state):
    devices = [f"CPU:{i}" for i in range(num_replicas)]
    return mirrax.MirroredStrategy(devices, shard_state=shard_state)


def make_variables(tree, dtype=None):
    return jax.tree.map(lambda leaf: mirrax.Variable(jnp.asarray(leaf, dtype)), tree)


def initial_weights():
    rng = np.random.default_rng(0)
    shapes = [*itertools.pairwise(SIZES), SIZES[-1:]]
    return [rng.normal(size=shape, scale=0.3).astype("f") for shape in shapes]


def loss_of(weights, x, precision):
    for weight in weights[:-1]:
        x = jnp.tanh(x.astype(precision) @ weight.astype(precision))
    return jnp.mean((x.astype(weights[-1].dtype) + weights[-1]) ** 2)


def values(tree):
    # Variables are nodes with their value inside.
    return jax.tree.map(lambda value: value, tree)


def assign(variables, tree):
    is_variable = lambda node: isinstance(node, mirrax.Variable)  # noqa: E731
    leaves = jax.tree.leaves(variables, is_leaf=is_variable)
    for variable, value in zip(leaves, jax.tree.leaves(tree), strict=True):
        variable.assign(value)


class Training:
    """Optax on variables.

    Args:
        dtype: That of the weights.
        precision: The dtype that the forward pass computes with.
        parts: How many gradients are accumulated.
    """

    def __init__(
        self,
        num_replicas,
        shard_state,
        optimizer,
        dtype="float32",
        precision="float32",
        parts=1,
    ):
        self.strategy = make_strategy(num_replicas, shard_state)
        with self.strategy.scope():
            self.weights = make_variables(initial_weights(), dtype)
            start = optimizer.init(values(self.weights))
            self.state = make_variables(start)
            self.average = make_variables(initial_weights())

        def differentiate(x):
            fn = lambda: loss_of(values(self.weights), x, precision)  # noqa: E731
            return mirrax.value_and_grad(fn, self.weights)()

        @mirrax.function
        def step(x):
            if parts > 1:
                loss, grads = mirrax.accumulate_gradients(differentiate, parts)(x)
            else:
                context = mirrax.get_replica_context()
                loss, grads = context.all_reduce("MEAN", differentiate(x))
            before = values(self.weights)
            changes, state = optimizer.update(grads, values(self.state), before)
            after = optax.apply_updates(before, changes)
            assign(self.weights, after)
            assign(self.state, state)
            averages = [
                0.9 * old + 0.1 * new.astype(jnp.float32)
                for old, new in zip(values(self.average), after, strict=True)
            ]
            assign(self.average, averages)
            return loss

        self.step = step

    def batches(self, count):
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(count * ROWS, SIZES[0])).astype("f")
        dataset = mirrax.data.Dataset.from_tensor_slices(rows).batch(ROWS)
        return self.strategy.experimental_distribute_dataset(dataset)

    def train(self, steps):
        for batch in self.batches(steps):
            self.strategy.run(self.step, (batch,))
        return self.result()

    def result(self):
        everything = (self.weights, self.state, self.average)
        return jax.tree.map(np.asarray, values(everything))

    def compiled(self):
        """Returns the program of the step, compiled by XLA."""
        (batch,) = self.batches(1)
        self.strategy.run(self.step, (batch,))
        (replicated,) = self.strategy.functions.values()
        (program,) = replicated.programs
        return program.analyzed()[1]


OPTIMIZERS = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optax.adam(1e-2),
    "adamw": optax.adamw(optax.cosine_decay_schedule(1e-2, 100), weight_decay=1e-2),
    "lion": optax.lion(1e-3),
    "adagrad": optax.adagrad(0.1),
    "rmsprop": optax.rmsprop(1e-2),
    "lamb": optax.lamb(1e-2),
    "lars": optax.lars(1e-2),
    "clipped": optax.chain(optax.clip_by_global_norm(0.1), optax.adam(1e-2)),
    "clipped_values": optax.chain(optax.clip(0.01), optax.sgd(0.1)),
    "multi_steps": optax.MultiSteps(optax.adam(1e-2), every_k_schedule=3),
    "if_finite": optax.apply_if_finite(optax.sgd(0.1), max_consecutive_errors=2),
}
slow = pytest.mark.slow
MIXED = {"precision": "bfloat16"}
BFLOAT16 = {"precision": "bfloat16", "dtype": "bfloat16"}
# The last bit of a float32 can decide how a weight is rounded to bfloat16.
PRECISIONS = {"bfloat16": {"weights": 1e-2, "state": 1e-2}}


def assert_close(mirrored, sharded, weights=1e-6, state=1e-5):
    """Compares what `Training.train` returns.

    XLA may round a multiplication before it adds, or not, and adds up a norm in another
    order. So numbers differ in the last bits of the largest in their array.
    """
    tolerances = (weights, state, weights)
    for tolerance, one, other in zip(tolerances, mirrored, sharded, strict=True):
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        for expected, found in pairs:
            exact = expected.astype(np.float64)
            largest = np.max(np.abs(exact), initial=0)
            np.testing.assert_allclose(found, exact, tolerance, tolerance * largest)


@pytest.mark.parametrize(
    ("name", "num_replicas", "options"),
    [
        ("clipped", 4, {}),
        pytest.param("adamw", 3, {}, id="padded"),
        pytest.param("momentum", 2, BFLOAT16, id="bfloat16"),
        pytest.param("adam", 2, {"parts": 2}, id="accumulated"),
        *[pytest.param(name, 4, {}, marks=slow) for name in OPTIMIZERS],
        *[pytest.param("clipped", n, {}, marks=slow) for n in (1, 2, 8)],
        *[pytest.param("lamb", n, {}, marks=slow) for n in (3, 8)],
        pytest.param("adamw", 4, MIXED, id="mixed", marks=slow),
        pytest.param("clipped", 4, {"parts": 3}, id="accumulated-3", marks=slow),
    ],
)
def test_training_gives_what_mirrored_state_gives(request, name, num_replicas, options):
    optimizer = OPTIMIZERS[name]
    is_slow = request.node.get_closest_marker("slow")
    steps = STEPS if is_slow else QUICK_STEPS
    mirrored = Training(num_replicas, False, optimizer, **options).train(steps)
    sharded = Training(num_replicas, 1, optimizer, **options).train(steps)
    assert_close(mirrored, sharded, **PRECISIONS.get(options.get("precision"), {}))


def count_operations(text, name):
    return len(re.findall(rf"= [^=]*\b{name}(?:-start)?\(", text))


@pytest.mark.parametrize("name", ["lamb", "lars"])
def test_layer_norms_are_computed_from_parts(name, caplog):
    with caplog.at_level(logging.INFO, "mirrax"):
        text = Training(4, 1, OPTIMIZERS[name]).compiled().as_text()
    assert "Sharded state" not in caplog.text
    assert "f32[36,5]" not in "".join(re.findall(r".*all-reduce.*|.*divide\(.*", text))


@pytest.mark.parametrize(
    "wrap",
    [jax.checkpoint, jax.lax.optimization_barrier, jax.nn.relu],
    ids=["remat", "barrier", "custom_jvp"],
)
def test_calls_around_an_update_are_computed_in_parts(sharded, caplog, wrap):
    variable = make(sharded, np.arange(-4.0, 4.0, dtype="f"))
    if wrap is jax.checkpoint:
        wrap = jax.checkpoint(lambda x: x * 2)

    @mirrax.function
    def step():
        variable.assign(wrap(variable * 0.5))

    before = variable.numpy()
    with caplog.at_level(logging.INFO, "mirrax"):
        sharded.run(step)
    assert "Sharded state" not in caplog.text
    np.testing.assert_array_equal(variable.numpy(), wrap(jnp.asarray(before * 0.5)))


def test_step_scatters_gradients_and_gathers_weights_alone():
    training = Training(4, 1, OPTIMIZERS["clipped"])
    text = training.compiled().as_text()
    # Of 2 matrices; the vector of 5 is padded to 8.
    assert count_operations(text, "reduce-scatter") in (1, 3)
    assert count_operations(text, "all-gather") <= 3
    gathered = re.findall(r"= f32\[([\d,]*)\][^=]*all-gather\(", text)
    assert "36,24" not in gathered
    assert "opt-barrier" not in text
    # The loss, and the norm of all gradients.
    assert re.findall(r"= (.*?) all-reduce\(", text) == ["(f32[], f32[])"]


def test_remat_computes_as_much_again_as_with_mirrored_state():
    def count(shard_state):
        strategy = make_strategy(2, shard_state)
        with strategy.scope():
            weight = mirrax.Variable(np.ones((64, 64), "f"))

        @mirrax.function
        def step(x):
            layer = jax.checkpoint(lambda w: jnp.tanh(jnp.sin(jnp.tanh(x @ w)) @ w.T))
            gradient = jax.grad(lambda w: jnp.mean(layer(w) ** 2))(weight.value)
            weight.assign_sub(mirrax.get_replica_context().all_reduce("SUM", gradient))

        strategy.run(step, (np.ones((512, 64), "f"),))
        (function,) = strategy.functions.values()
        (program,) = function.programs
        return count_operations(program.analyzed()[1].as_text(), "tanh")

    assert count(1) == count(False)


def test_weights_are_cast_before_they_are_gathered():
    # XLA gathers bfloat16 as float32 on CPUs.
    training = Training(2, 1, OPTIMIZERS["sgd"], precision="float16")
    text = training.compiled().as_text()
    gathered = re.findall(r"= (\w+)\[\d+,\d+\][^=]*all-gather\(", text)
    assert gathered == ["f16", "f16"]


@pytest.mark.parametrize("name", ["clipped", "adamw"])
def test_step_needs_less_memory_than_mirrored(name):
    mirrored = Training(4, False, OPTIMIZERS[name]).compiled().memory_analysis()
    sharded = Training(4, 1, OPTIMIZERS[name]).compiled().memory_analysis()
    batch = ROWS // 4 * SIZES[0] * 4
    state = mirrored.argument_size_in_bytes - batch
    assert sharded.argument_size_in_bytes - batch <= 0.25 * state * 1.05 + 64
    assert sharded.temp_size_in_bytes <= mirrored.temp_size_in_bytes


@pytest.fixture
def sharded():
    return make_strategy(2, shard_state=1)


def make(strategy, value, **options):
    with strategy.scope():
        variable = mirrax.Variable(value, **options)
    assert isinstance(variable, ShardedVariable)
    return variable


def test_read_after_write_in_one_step_gives_the_new_value(sharded):
    v = make(sharded, np.arange(8.0, dtype="f"))

    @mirrax.function
    def step():
        v.assign_add(jnp.ones(8))
        first = v.value[::-1] * 1
        v.assign(v * 2)
        return first, jnp.sum(v), jnp.cumsum(v.value)

    first, total, running = sharded.run(step)
    np.testing.assert_array_equal(v, 2 * np.arange(1, 9))
    np.testing.assert_array_equal(first, np.arange(8, 0, -1))
    np.testing.assert_array_equal(running, np.cumsum(2 * np.arange(1, 9)))
    assert total == 72


def test_write_that_differs_between_replicas_is_refused(sharded):
    v = make(sharded, np.zeros(8, "f"))

    @mirrax.function
    def step():
        index = mirrax.get_replica_context().replica_id_in_sync_group
        v.assign(jnp.ones(8) * index)

    with pytest.raises(ValueError, match="assigned the same value by every replica"):
        sharded.run(step)


class Butterfly(mirrax.CrossDeviceOps):
    """Adds up in steps, between which the values differ from replica to replica."""

    def sum_over_replicas(self, values, num_replicas, options):
        for distance in (1, 2):
            pairs = [(i, i ^ distance) for i in range(num_replicas)]
            values = [v + jax.lax.ppermute(v, "replica", pairs) for v in values]
        return values


def test_values_of_a_replica_are_not_gathered_from_others():
    devices = [f"CPU:{i}" for i in range(4)]
    strategy = mirrax.MirroredStrategy(devices, Butterfly(), shard_state=1)
    v = make(strategy, np.zeros((4, 4), "f"))

    @mirrax.function
    def step():
        context = mirrax.get_replica_context()
        own = jnp.ones((4, 4)) * (1 + context.replica_id_in_sync_group)
        v.assign(v + context.all_reduce("SUM", own) + jnp.max(v))
        return own

    own = strategy.run(step)
    assert [float(part[3, 3]) for part in own.values] == [1, 2, 3, 4]
    np.testing.assert_array_equal(v, np.full((4, 4), 10))


@pytest.mark.parametrize("size", [8, 7], ids=["even", "padded"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_reductions_of_parts_ignore_the_padding(sharded, size, dtype):
    data = np.arange(1, size + 1).astype(dtype)
    v = make(sharded, data)

    def reduced(x):
        results = jnp.max(x), jnp.min(x), jnp.sum(x), jnp.all(x > 0), jnp.any(x == 0)
        if dtype == "float32":
            return results
        return *results, jax.lax.reduce_and(x, (0,)), jax.lax.reduce_or(x, (0,))

    @mirrax.function
    def step():
        results = reduced(v.value)
        v.assign(v)
        return results

    expected = reduced(jnp.asarray(data))
    results = sharded.run(step)
    assert results == expected
    assert [x.dtype for x in results] == [x.dtype for x in expected]
    assert v.stored.dtype == dtype


def test_reductions_of_parts_keep_nan(sharded):
    v = make(sharded, np.array([1, np.nan, 2, 3], "f"))

    @mirrax.function
    def step():
        results = jnp.max(v), jnp.min(v), jnp.max(v[2:])
        v.assign(v)
        return results

    np.testing.assert_array_equal(sharded.run(step), [np.nan, np.nan, 3])


def test_padding_makes_no_nan(sharded):
    v = make(sharded, np.ones(7, "f"))

    @mirrax.function
    def step():
        v.assign(v / v)
        return jnp.sqrt(jnp.sum(v))

    with jax.debug_nans(True):
        assert sharded.run(step) == np.sqrt(np.float32(7))
    assert np.isfinite(np.asarray(v.stored)).all()


def test_branches_and_loops_give_the_right_value(sharded, caplog):
    v = make(sharded, np.ones((4, 6), "f"))

    @mirrax.function
    def step(x):
        mirrax.cond(x > 0, lambda: v.assign_add(v.value), lambda: v.assign(-v.value))
        v.assign(
            jax.lax.fori_loop(
                0, x.astype(int) * 0, lambda _, y: y.at[0].set(9), v.value
            )
        )
        mirrax.scan(lambda _, y: (None, v.assign(v * y)), None, jnp.arange(1.0, 4.0))
        return jnp.sum(v)

    with caplog.at_level(logging.INFO, "mirrax"):
        assert sharded.run(step, (jnp.float32(1),)) == 24 * 12
    np.testing.assert_array_equal(v, np.full((4, 6), 12))
    assert sharded.run(step, (jnp.float32(-1),)) == -24 * 72
    np.testing.assert_array_equal(v, np.full((4, 6), -72))
    assert "each step gathers 'Variable:0' for cond, while" in caplog.text


def test_several_steps_in_one_function_give_the_same():
    results = []
    for shard_state in (False, 1):
        training = Training(2, shard_state, OPTIMIZERS["clipped"])

        @mirrax.function
        def steps(x, training=training):
            training.step(x)
            return training.step(x)

        @mirrax.function
        def outer(batch, training=training, steps=steps):
            total = training.strategy.run(steps, (batch,))
            assign(training.average, [v * 2 for v in values(training.average)])
            return training.strategy.run(training.step, (batch,)), total

        for batch in training.batches(3):
            outer(batch)
        results.append(training.result())
    assert_close(*results)


def test_last_partial_batch_gives_the_same():
    results = []
    for shard_state in (False, 1):
        training = Training(2, shard_state, OPTIMIZERS["adam"])
        rows = np.random.default_rng(1).normal(size=(19, SIZES[0])).astype("f")
        dataset = mirrax.data.Dataset.from_tensor_slices(rows).batch(8)
        for batch in training.strategy.experimental_distribute_dataset(dataset):
            training.strategy.run(training.step, (batch,))
        results.append(training.result())
        assert type(training.weights[0]).__name__.startswith(
            "Sharded" if shard_state else "Mirrored"
        )
    assert_close(*results)


def test_branches_compute_in_parts():
    training = Training(4, 1, OPTIMIZERS["multi_steps"])
    text = training.compiled().as_text()
    # Weights for the forward pass, and nothing else; the vector of 5 is padded.
    assert count_operations(text, "all-gather") <= 3
    mirrored = Training(4, False, OPTIMIZERS["multi_steps"]).train(7)
    assert_close(mirrored, Training(4, 1, OPTIMIZERS["multi_steps"]).train(7))


def test_loop_of_steps_carries_parts():
    results = []
    for shard_state in (False, 1):
        training = Training(4, shard_state, OPTIMIZERS["clipped"])

        @mirrax.function
        def steps(x, step=training.step):
            return mirrax.scan(lambda _, row: (None, step(row)), None, x)[1]

        for batch in training.batches(2):
            stacked = jnp.stack([batch.values[0], batch.values[1] * 0.5])
            training.strategy.run(steps, (stacked,))
        results.append(training.result())
    assert_close(*results)
    (program,) = next(iter(training.strategy.functions.values())).programs
    text = program.analyzed()[1].as_text()
    assert count_operations(text, "all-gather") <= 3
    assert count_operations(text, "reduce-scatter") >= 1


def test_training_goes_on_from_a_checkpoint_bit_by_bit(tmp_path):
    through = Training(4, 1, OPTIMIZERS["clipped"])
    expected = through.train(6)
    first = Training(4, 1, OPTIMIZERS["clipped"])
    batches = list(first.batches(6))
    second = Training(4, 1, OPTIMIZERS["clipped"])
    for training, own in ((first, batches[:3]), (second, batches[3:])):
        state = {"w": training.weights, "s": training.state, "a": training.average}
        checkpoint = mirrax.train.Checkpoint(**state)
        if training is second:
            checkpoint.read(tmp_path / "saved")
        for batch in own:
            training.strategy.run(training.step, (batch,))
        if training is first:
            checkpoint.write(tmp_path / "saved")
    jax.tree.map(np.testing.assert_array_equal, expected, second.result())


@pytest.mark.parametrize("num_replicas", [2, 3, 4])
def test_broadcast_axes_of_size_one_are_not_taken_for_parts(num_replicas):
    start = np.arange(1, 21, dtype="f").reshape(4, 5)
    strategy = make_strategy(num_replicas, 0)
    with strategy.scope():
        variable = mirrax.Variable(start)

    @mirrax.function
    def step():
        rows = jnp.sum(variable.read_value(), 1, keepdims=True)
        variable.assign(variable / rows + rows * jnp.ones((1, 5)))

    strategy.run(step)
    rows = start.sum(1, keepdims=True)
    np.testing.assert_allclose(variable.numpy(), start / rows + rows, rtol=1e-6)


@pytest.mark.parametrize(
    "reduced",
    [
        lambda x: jnp.sum(x, axis=0),
        lambda x: x @ x,
        lambda x: jnp.vdot(x, x),
        lambda x: jnp.argmax(x) / 7,
        jnp.prod,
    ],
    ids=["partial_sum", "matmul", "vdot", "argmax", "prod"],
)
def test_variable_that_is_gathered_is_named_once(sharded, caplog, reduced):
    with sharded.scope():
        weight = mirrax.Variable(jnp.ones((4, 4)), name="weight")
        slot = mirrax.Variable(jnp.full((4, 4), 0.5), name="slot")

    @mirrax.function
    def step(x):
        total = mirrax.get_replica_context().all_reduce("SUM", x @ weight.value.T)
        slot.assign(slot * 0.9 + total)
        weight.assign_sub(slot * reduced(slot.value))

    with caplog.at_level(logging.INFO, "mirrax"):
        sharded.run(step, (jnp.ones((4, 4)),))
        sharded.run(step, (jnp.ones((4, 4)),))
    (message,) = [record.getMessage() for record in caplog.records]
    assert "'slot:0'" in message
    assert "'weight:0'" not in message


def test_value_that_is_gathered_on_the_way_is_logged(sharded, caplog):
    weight = make(sharded, np.ones((4, 4), "f"))
    slot = make(sharded, np.ones((4, 4), "f"))

    @mirrax.function
    def step(x):
        slot.assign(slot * 0.9 + mirrax.get_replica_context().all_reduce("SUM", x))
        change = jnp.tanh(slot.value)
        weight.assign_sub(change / jnp.sum(change, axis=0)[0])

    with caplog.at_level(logging.INFO, "mirrax"):
        sharded.run(step, (jnp.ones((4, 4)),))
    (message,) = [record.getMessage() for record in caplog.records]
    assert "gathers a new value for " in message
    assert "reduce_sum" in message


def test_nested_loops_are_planned_once(sharded, monkeypatch):
    v = make(sharded, np.ones(8, "f"))
    depth = 5
    planned = []

    class CountedPlan(plan.Plan):
        def __init__(self, *args):
            planned.append(self)
            super().__init__(*args)

    monkeypatch.setattr(plan, "Plan", CountedPlan)
    monkeypatch.setattr(evaluation, "Plan", CountedPlan)

    def double(levels):
        if levels:
            twice = mirrax.scan(lambda *_: (None, double(levels - 1)), None, None, 2)
            return twice[1][-1]
        v.assign(v * 2)
        return jnp.sum(v)

    @mirrax.function
    def step():
        return double(depth)

    assert sharded.run(step) == 8 * 2.0 ** (2**depth)
    assert len(planned) == depth + 1
