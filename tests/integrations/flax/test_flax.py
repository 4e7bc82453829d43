import copy
import pickle
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.errors import TraceContextError

import mirrax
from tests.programs import engines, mirrored

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.second = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.tanh(self.first(x)))


def loss_of(model, x, y):
    return jnp.mean((model(x) - y) ** 2)


@pytest.fixture(
    params=[(2, False), (1, True), (2, True)],
    ids=["eager", "compiled_alone", "compiled"],
)
def setting(request):
    """How many replicas there are, and whether they are compiled."""
    return request.param


@pytest.fixture
def strategy(setting):
    return mirrored(setting[0])


@pytest.fixture
def run(setting, strategy):
    functions = {}

    def run(fn, *args):
        if setting[1]:
            fn = functions.setdefault(fn.__code__, mirrax.function(fn))
        return strategy.run(fn, args)

    return run


def batch_for(strategy):
    data = mirrax.data.Dataset.from_tensor_slices((X, Y)).batch(len(X))
    return next(iter(strategy.experimental_distribute_dataset(data)))


def combined(gradients):
    return mirrax.get_replica_context().all_reduce("MEAN", gradients)


def replica_id():
    return mirrax.get_replica_context().replica_id_in_sync_group


def train_plainly(num_steps):
    """What Flax gives on one device."""
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    for _ in range(num_steps):
        optimizer.update(model, nnx.grad(loss_of)(model, X, Y))
    return np.asarray(model.first.kernel[...])


def nnx_gradients(model, x, y):
    return nnx.grad(loss_of)(model, x, y)


def mirrax_gradients(model, x, y):
    return mirrax.value_and_grad(lambda: loss_of(model, x, y), model)()[1]


@pytest.mark.parametrize(
    "gradients_of", [nnx_gradients, mirrax_gradients], ids=["nnx", "mirrax"]
)
def test_model_and_optimizer_as_arguments_train_as_on_one_device(
    run, strategy, gradients_of
):
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    def step(model, optimizer, x, y):
        optimizer.update(model, combined(gradients_of(model, x, y)))

    for _ in range(3):
        run(step, model, optimizer, *batch_for(strategy))
    np.testing.assert_allclose(model.first.kernel[...], train_plainly(3), rtol=1e-4)
    assert int(optimizer.step[...]) == 3


def test_model_in_a_closure_trains_as_on_one_device(run, strategy):
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    def step(x, y):
        optimizer.update(model, combined(nnx_gradients(model, x, y)))

    for _ in range(3):
        run(step, *batch_for(strategy))
    np.testing.assert_allclose(model.first.kernel[...], train_plainly(3), rtol=1e-4)


def test_function_around_run_is_one_program(two_replicas):
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    def step(model, x, y):
        optimizer.update(model, combined(nnx_gradients(model, x, y)))

    @mirrax.function
    def train(model, x, y):
        two_replicas.run(step, (model, x, y))

    for _ in range(3):
        train(model, *batch_for(two_replicas))
    assert train.trace_count == 1
    np.testing.assert_allclose(model.first.kernel[...], train_plainly(3), rtol=1e-4)


def test_partial_last_batch_trains_as_on_one_device(two_replicas):
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

    @mirrax.function
    def step(x, y):
        def loss(model):
            return jnp.sum((model(x) - y) ** 2)

        gradients = nnx.grad(loss)(model)
        optimizer.update(
            model, mirrax.get_replica_context().all_reduce("SUM", gradients)
        )

    parts = [mirrax.PerReplica((a[:5], a[5:])) for a in (X, Y)]
    two_replicas.run(step, parts)
    plain = Net(nnx.Rngs(0))
    other = nnx.Optimizer(plain, optax.sgd(0.1), wrt=nnx.Param)
    other.update(plain, nnx.grad(lambda m: jnp.sum((m(X) - Y) ** 2))(plain))
    np.testing.assert_allclose(
        model.first.kernel[...], plain.first.kernel[...], rtol=1e-4
    )


def test_modes_have_their_own_programs_for_partial_batches(two_replicas):
    model = nnx.BatchNorm(4, momentum=0.0, rngs=nnx.Rngs(0))
    step = mirrax.function(model.__call__)
    parts = mirrax.PerReplica((X[:5], X[5:]))
    model.eval()
    two_replicas.run(step, (parts,))
    np.testing.assert_array_equal(model.mean[...], np.zeros(4))
    model.train()
    two_replicas.run(step, (parts,))
    means = X[:5].mean(axis=0), X[5:].mean(axis=0)
    np.testing.assert_allclose(model.mean[...], np.mean(means, axis=0), rtol=1e-5)


def test_parameter_of_another_shape_has_its_own_program_for_partial_batches(
    two_replicas,
):
    weights = nnx.Param(jnp.ones(3))
    step = mirrax.function(lambda x: jnp.sum(x) * jnp.mean(weights[...]))
    rows = mirrax.PerReplica((np.ones(5, np.float32), np.ones(3, np.float32)))
    two_replicas.run(step, (rows,))
    weights.set_value(jnp.ones(6))
    sums = two_replicas.run(step, (rows,))
    assert [float(value) for value in sums.values] == [5, 3]


def test_function_made_of_a_model_follows_its_mode(two_replicas):
    model = nnx.BatchNorm(4, momentum=0.0, rngs=nnx.Rngs(0))
    step = mirrax.function(model)
    model.eval()
    two_replicas.run(step, batch_for(two_replicas)[:1])
    model.train()
    two_replicas.run(step, batch_for(two_replicas)[:1])
    np.testing.assert_allclose(model.mean[...], X.mean(axis=0), rtol=1e-5)


def test_batch_statistics_are_the_mean_of_the_replicas(run, strategy):
    norm = nnx.BatchNorm(4, momentum=0.0, rngs=nnx.Rngs(0))
    run(lambda x, y: norm(x), *batch_for(strategy))
    np.testing.assert_allclose(norm.mean[...], X.mean(axis=0), rtol=1e-4, atol=1e-6)


def test_batch_statistics_come_out_of_a_gradient(run, strategy):
    norm = nnx.BatchNorm(4, momentum=0.0, rngs=nnx.Rngs(0))

    def step(x, y):
        mirrax.value_and_grad(lambda: norm(x).sum(), norm)()

    run(step, *batch_for(strategy))
    np.testing.assert_allclose(norm.mean[...], X.mean(axis=0), rtol=1e-4, atol=1e-6)


def test_random_streams_differ_between_replicas(run, strategy):
    rngs = nnx.Rngs(0)
    drawn, again = (
        strategy.experimental_local_results(run(lambda: rngs.normal((3,))))
        for _ in range(2)
    )
    assert len({tuple(np.asarray(part)) for part in drawn}) == len(drawn)
    assert not np.allclose(again[0], drawn[0])
    assert int(rngs.default.count[...]) == 2


def test_random_streams_are_the_same_eager_and_compiled(two_replicas):
    def draw(compiled):
        dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

        def step():
            return dropout(jnp.ones(64))

        results = two_replicas.run(mirrax.function(step) if compiled else step)
        return np.asarray(two_replicas.experimental_local_results(results))

    eager = draw(compiled=False)
    np.testing.assert_array_equal(eager, draw(compiled=True))
    assert not np.array_equal(eager[0], eager[1])


def test_one_replica_draws_what_flax_draws():
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    ours, theirs = nnx.Rngs(0), nnx.Rngs(0)
    drawn = strategy.run(mirrax.function(lambda: ours.normal((3,))))
    np.testing.assert_array_equal(drawn, theirs.normal((3,)))


def test_dropout_in_a_gradient_advances_the_stream(run, strategy):
    dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def step(x, y):
        nnx.grad(lambda d: d(x).sum())(dropout)

    run(step, *batch_for(strategy))
    assert int(dropout.rngs.count[...]) == 1


def test_metrics_count_all_replicas(run, strategy):
    metric = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))

    def step(x, y):
        metric.update(loss=y)

    run(step, *batch_for(strategy))
    run(step, *batch_for(strategy))
    np.testing.assert_allclose(metric.compute()["loss"], Y.mean(), rtol=1e-5)
    assert int(metric.loss.count[...]) == 16


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_metric_that_does_not_add_up_is_refused(two_replicas, compiled):
    metric = nnx.metrics.Welford()

    def step(x, y):
        metric.update(values=y)

    fn = mirrax.function(step) if compiled else step
    with pytest.raises(ValueError, match=r"nnx\.MetricState.*same value"):
        two_replicas.run(fn, batch_for(two_replicas))


def test_aggregation_can_be_named_in_the_metadata(run, strategy):
    largest = nnx.Variable(jnp.float32(0), aggregation="SUM")

    def step():
        largest[...] = jnp.float32(replica_id() + 1)

    run(step)
    count = strategy.num_replicas_in_sync
    assert float(largest[...]) == count * (count + 1) / 2


def test_change_of_mode_is_seen(two_replicas):
    dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    @mirrax.function
    def closure(x):
        return dropout(x)

    @mirrax.function
    def argument(module, x):
        return module(x)

    for fn, args in ((closure, ()), (argument, (dropout,))):
        dropout.train()
        assert 0.0 in parts(two_replicas, fn, args)
        dropout.eval()
        assert 0.0 not in parts(two_replicas, fn, args)
        dropout.train()
        assert 0.0 in parts(two_replicas, fn, args)
        assert fn.over(two_replicas).trace_count == 2


def parts(strategy, fn, args):
    results = strategy.run(fn, (*args, jnp.ones(64)))
    return np.concatenate(strategy.experimental_local_results(results))


def test_layer_that_is_replaced_is_used(two_replicas):
    model = Net(nnx.Rngs(0))

    @mirrax.function
    def predict(x):
        return model(x)

    assert two_replicas.run(predict, (X,)).shape == (8, 1)
    model.second = nnx.Linear(8, 3, rngs=nnx.Rngs(1))
    assert two_replicas.run(predict, (X,)).shape == (8, 3)


def test_new_objects_do_not_trace_again(two_replicas):
    model = Net(nnx.Rngs(0))

    @mirrax.function
    def predict(x):
        return model(x)

    two_replicas.run(predict, (X,))
    Net(nnx.Rngs(1))
    two_replicas.run(predict, (X,))
    assert predict.over(two_replicas).trace_count == 1


def test_state_from_outside_is_used(two_replicas):
    model, other = Net(nnx.Rngs(0)), Net(nnx.Rngs(1))

    @mirrax.function
    def predict(x):
        return model(x)

    before = np.asarray(two_replicas.run(predict, (X,)))
    nnx.update(model, nnx.state(other))
    after = np.asarray(two_replicas.run(predict, (X,)))
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, other(X), rtol=1e-5)


def test_functional_style_returns_the_new_state(run, strategy):
    graph, state = nnx.split(Net(nnx.Rngs(0)))

    def step(state, x, y):
        gradients = jax.grad(lambda s: loss_of(nnx.merge(graph, s), x, y))(state)
        gradients = combined(gradients)
        return jax.tree.map(lambda p, g: p - 0.1 * g, state, gradients)

    new = run(step, state, *batch_for(strategy))
    kernel = strategy.experimental_local_results(new["first"]["kernel"].get_raw_value())
    plain = Net(nnx.Rngs(0))
    gradient = nnx.grad(loss_of)(plain, X, Y)["first"]["kernel"][...]
    np.testing.assert_allclose(
        kernel[0], plain.first.kernel[...] - 0.1 * gradient, rtol=1e-4
    )


def test_transformations_of_nnx_work_inside(two_replicas):
    counter = nnx.Variable(jnp.float32(0))
    model = Net(nnx.Rngs(0))

    @nnx.jit
    def forward(model, counter, x):
        counter[...] += 1
        return model(x)

    @mirrax.function
    def step(x):
        return forward(model, counter, x)

    np.testing.assert_allclose(two_replicas.run(step, (X,)), model(X), rtol=1e-5)
    assert float(counter[...]) == 1.0


def test_attribute_that_would_keep_a_traced_value_is_refused(two_replicas):
    model = Net(nnx.Rngs(0))

    @mirrax.function
    def step(x):
        model.last = x

    with pytest.raises(TraceContextError, match=r"Net\.last.*Return the value"):
        two_replicas.run(step, (X,))


def test_attribute_is_seen_by_a_function_that_uses_no_variable(two_replicas):
    model = Net(nnx.Rngs(0))
    model.factor = 2.0
    step = mirrax.function(lambda x: x * model.factor)
    for _ in range(3):
        assert float(two_replicas.run(step, (jnp.float32(3),))) == 6
    model.factor = 3.0
    assert float(two_replicas.run(step, (jnp.float32(3),))) == 9


def test_step_of_arrays_is_recognized_without_searching_for_modules(two_replicas):
    step = mirrax.function(lambda state: {"w": state["w"] + 1})
    state, called = {"w": jnp.ones(3)}, []
    for _ in range(3):
        state = two_replicas.run(step, (state,))
    sys.setprofile(lambda frame, *_: called.append(frame.f_code.co_qualname))
    try:
        two_replicas.run(step, (state,))
    finally:
        sys.setprofile(None)
    assert "FlaxLibrary.fingerprint" not in called
    assert "Program.__call__" in called


@engines
def test_variable_by_itself_is_no_argument(engine, two_replicas):
    variable = nnx.Variable(jnp.float32(0))

    def step(variable):
        variable[...] += 1

    with pytest.raises(TypeError, match=r"writes to the copy are lost"):
        two_replicas.run(engine(step), (variable,))


def test_gradient_by_a_variable_and_by_a_state(two_replicas):
    model = Net(nnx.Rngs(0))

    @mirrax.function
    def step(x, y):
        def loss():
            return loss_of(model, x, y)

        by_variable = mirrax.value_and_grad(loss, [model.first.kernel])()[1][0]
        by_state = mirrax.value_and_grad(loss, nnx.state(model, nnx.Param))()[1]
        return by_variable, by_state["first"]["kernel"][...]

    one, other = two_replicas.run(step, (X, Y))
    expected = nnx.grad(loss_of)(model, X, Y)["first"]["kernel"][...]
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(other, expected, rtol=1e-4, atol=1e-6)


def test_tape_takes_gradients_by_the_variables_of_a_model(two_replicas):
    model = Net(nnx.Rngs(0))

    @mirrax.function
    def step(x, y):
        with mirrax.GradientTape() as tape:
            loss = loss_of(model, x, y)
        return tape.gradient(loss, model)["first"]["kernel"][...]

    found = two_replicas.run(step, (X, Y))
    expected = nnx.grad(loss_of)(model, X, Y)["first"]["kernel"][...]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_models_outside_are_as_flax_made_them(two_replicas):
    slot = nnx.Variable.__dict__["_raw_value"]
    model = Net(nnx.Rngs(0))
    two_replicas.run(mirrax.function(model), (X,))
    assert nnx.Variable.__dict__["_raw_value"] is slot
    assert type(slot).__name__ == "member_descriptor"
    model.first.kernel[...] = jnp.zeros((4, 8))
    copied = copy.deepcopy(model)
    copied.first.bias[...] = jnp.ones(8)
    assert float(model.first.bias[...].sum()) == 0.0
    restored = pickle.loads(pickle.dumps(model.first.kernel))
    restored[...] = jnp.ones((4, 8))


@pytest.fixture
def run_python():
    """Runs a program in a fresh interpreter and returns what it prints."""

    def run(program):
        finished = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return finished.stdout.strip()

    return run


def test_unknown_version_is_said(run_python):
    program = """
        import flax.nnx as nnx, mirrax
        del nnx.RngStream.__call__
        try:
            mirrax.function(lambda x: x)(1.0)
        except ImportError as error:
            print(error)
    """
    assert "tested with flax 0.12.8" in run_python(program)


def test_a_program_that_reads_a_model_keeps_no_hold_of_its_arrays(two_replicas):
    with two_replicas.scope():
        model = nnx.Linear(3, 3, rngs=nnx.Rngs(0))

    @mirrax.function
    def read():
        return model(jnp.ones((1, 3))).sum()

    @mirrax.function
    def change():
        model.kernel[...] = model.kernel[...] + 1.0

    two_replicas.run(change)
    before = model.kernel.get_raw_value()
    reference = sys.getrefcount(before)
    two_replicas.run(read)
    assert sys.getrefcount(before) == reference


@pytest.mark.parametrize(
    "put",
    [lambda model: {"model": model}, lambda model: {"model": [model]}],
    ids=["dict", "nested"],
)
def test_a_module_in_a_container_can_change_its_mode(put):
    model = nnx.Dropout(0.999, rngs=nnx.Rngs(0))
    held = put(model)

    @mirrax.function
    def total(x):
        (found,) = jax.tree.leaves(held, is_leaf=lambda x: x is model)
        return found(x).sum()

    assert float(total(jnp.ones(100))) != 100
    model.eval()
    assert float(total(jnp.ones(100))) == 100


class Noisy(nnx.Module):
    def __init__(self):
        self.dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
        self.norm = nnx.BatchNorm(4, rngs=nnx.Rngs(0))


@engines
def test_transform_with_a_collective_inside_changes_the_model(two_replicas, engine):
    model = Noisy()

    def loss_of(model, x):
        return mirrax.nn.compute_average_loss(model.norm(model.dropout(x)).sum(axis=1))

    def step(model, x):
        return nnx.value_and_grad(loss_of)(model, x)[0]

    function = engine(step)
    for _ in range(2):
        two_replicas.run(function, args=(model, X))
    assert int(model.dropout.rngs.count[...]) == 2
    assert np.any(np.asarray(model.norm.mean[...]) != 0)
