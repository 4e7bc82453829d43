import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
import pytest

import mirrax
from mirrax.errors import CheckpointMismatchError
from mirrax.train import Checkpoint
from tests.programs import mirrored

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def build(strategy, units=4):
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(units),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(1),
            ]
        )
        model.compile(optimizer="adam", loss="mse")
    return model


def fit(model, epochs=1):
    model.fit(X, Y, batch_size=8, shuffle=False, epochs=epochs, verbose=0)


def test_model_and_its_optimizer_go_on_on_another_number_of_replicas(tmp_path):
    model = build(mirrored(2))
    fit(model, epochs=2)
    path = Checkpoint(model=model).save(tmp_path / "ckpt")
    other = build(mirrored(1))
    other.optimizer.build(other.trainable_variables)
    Checkpoint(model=other).restore(path)
    for one, two in zip(other.weights, model.weights):
        np.testing.assert_array_equal(one, two)
    fit(model)
    fit(other)
    np.testing.assert_allclose(other.weights[0], model.weights[0], rtol=1e-5)


def deferred(units=4):
    """A model that has only the seed of its Dropout before it sees data."""
    dropout = keras.layers.Dropout(0.5)
    return keras.Sequential([keras.layers.Dense(units), dropout, keras.layers.Dense(1)])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model after two steps: where it was saved, and what it was then and later."""
    model = build(mirrored(2))
    fit(model, epochs=2)
    objects = Checkpoint(model=model, optimizer=model.optimizer)
    path = objects.save(tmp_path_factory.mktemp("saved") / "ckpt")
    then = model.get_weights(), np.asarray(model(X))
    fit(model)
    return path, *then, model.get_weights()


@pytest.mark.parametrize("names", [["opt"], ["model"], ["model", "opt"]], ids=str)
def test_steps_of_an_optimizer_are_restored_before_it_is_built(
    tmp_path, two_replicas, names
):
    def objects(model):
        every = {"model": model, "opt": model.optimizer}
        return Checkpoint(**{name: every[name] for name in names})

    model, other = build(two_replicas), build(two_replicas)
    fit(model, epochs=2)
    status = objects(other).restore(objects(model).save(tmp_path / "ckpt"))
    assert int(other.optimizer.iterations) == 2
    with pytest.raises(AssertionError, match="must have an object"):
        status.assert_consumed()
    fit(other)
    assert int(other.optimizer.iterations) == 3
    status.assert_consumed()


@pytest.mark.parametrize("scales", [False, True], ids=["plain", "scales losses"])
def test_optimizer_without_its_model_is_restored_when_fit_builds_it(
    tmp_path, two_replicas, scales
):
    model, other = build(two_replicas), build(two_replicas)
    for each in (model, other):
        optimizer = keras.optimizers.SGD(0.0, momentum=0.5)
        if scales:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        each.compile(optimizer=optimizer, loss="mse")
    fit(model, epochs=2)
    path = Checkpoint(opt=model.optimizer).save(tmp_path / "ckpt")
    status = Checkpoint(opt=other.optimizer).restore(path)
    other.set_weights(model.get_weights())
    fit(model)
    fit(other)
    for one, two in zip(other.optimizer.variables, model.optimizer.variables):
        np.testing.assert_allclose(one, two, atol=1e-6)
    status.assert_consumed()


def test_model_is_restored_when_fit_builds_it(saved, two_replicas):
    path, _, _, later = saved
    with two_replicas.scope():
        other = deferred()
        other.compile(optimizer="adam", loss="mse")
    status = Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    fit(other)
    for one, two in zip(other.get_weights(), later, strict=True):
        np.testing.assert_array_equal(one, two)
    assert int(other.optimizer.iterations) == 3
    status.assert_consumed()


def test_model_is_restored_before_its_first_call_answers(saved, two_replicas):
    path, _, answers, _ = saved
    with two_replicas.scope():
        other = deferred()
    Checkpoint(model=other).restore(path)
    np.testing.assert_array_equal(other(X), answers)


class LateLayers(keras.Model):
    """Its own `build` leaves the building of its layers to the first call."""

    def __init__(self):
        super().__init__()
        self.last = keras.layers.Dense(1)

    def build(self, input_shape):
        self.first = keras.layers.Dense(4)

    def call(self, x):
        return self.last(self.first(x))


class TwoInputs(LateLayers):
    def build(self, x_shape, y_shape):
        super().build(x_shape)

    def call(self, x, y):
        return super().call(x + y)


@pytest.mark.parametrize(("make", "inputs"), [(LateLayers, [X]), (TwoInputs, [X, X])])
def test_model_is_restored_before_its_first_call_builds_its_layers(
    tmp_path, make, inputs
):
    model = make()
    answers = model(*inputs)
    path = Checkpoint(model=model).save(tmp_path / "ckpt")
    other = make()
    status = Checkpoint(model=other).restore(path)
    np.testing.assert_array_equal(other(*inputs), answers)
    status.assert_consumed()


@pytest.mark.parametrize("decorate", [lambda fn: fn, mirrax.function], ids=["e", "c"])
def test_model_and_optimizer_are_restored_in_the_first_step(
    saved, two_replicas, decorate
):
    path, weights, _, _ = saved
    with two_replicas.scope():
        model, optimizer = deferred(), keras.optimizers.Adam()
    Checkpoint(model=model, optimizer=optimizer).restore(path)

    def loss():
        return (model(X) ** 2).mean()

    @decorate
    def step():
        # Builds it: only then is known by what derivatives are taken.
        model(X)
        _, grads = mirrax.value_and_grad(loss, model.trainable_variables)()
        optimizer.apply(grads, model.trainable_variables)

    two_replicas.run(step)
    moved = np.abs(model.get_weights()[0] - weights[0]).max()
    assert 0 < moved < 0.002
    two_replicas.run(step)
    assert int(optimizer.iterations) == 4


def test_layers_that_come_later_and_were_not_saved_are_listed(saved, two_replicas):
    with two_replicas.scope():
        other = deferred()
        other.add(keras.layers.Dense(1))
    Checkpoint(model=other).restore(saved[0])
    with pytest.raises(CheckpointMismatchError, match="'model/5' was not saved"):
        other(X)


def test_other_layers_are_listed(tmp_path, two_replicas):
    path = Checkpoint(model=build(two_replicas)).save(tmp_path / "ckpt")
    with pytest.raises(CheckpointMismatchError) as caught:
        Checkpoint(model=build(two_replicas, units=5)).restore(path)
    message = str(caught.value)
    assert "'model/0' has shape (3, 5), but shape (3, 4) was saved" in message
    assert "'model/3' has shape (5, 1), but shape (4, 1) was saved" in message


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.l1 = keras.layers.Dense(5)

    def call(self, x):
        return self.l1(x)


def test_part_of_a_model_is_restored_by_the_names_of_its_attributes(tmp_path):
    net = Net()
    net(X)
    net.l1.bias.assign(np.arange(5))
    path = Checkpoint(net=net).save(tmp_path / "ckpt")
    bias = mirrax.Variable(np.zeros(5, np.float32))
    layer = Checkpoint(bias=bias)
    status = Checkpoint(net=Checkpoint(l1=layer)).restore(path)
    status.assert_existing_objects_matched()
    assert bias.numpy().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(AssertionError, match="net/0"):
        status.assert_consumed()
    kernel = mirrax.Variable(np.zeros((3, 5), np.float32))
    layer.kernel = kernel
    np.testing.assert_array_equal(kernel, net.l1.kernel)
    status.assert_consumed()


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (keras.metrics.Mean, lambda metric: metric.update_state([1.0, 3.0])),
        (lambda: keras.random.SeedGenerator(1), lambda seeds: seeds.next()),
    ],
    ids=["metric", "seed_generator"],
)
def test_small_objects_with_state_are_restored(tmp_path, make, change):
    def values(value):
        variables = getattr(value, "variables", None) or [value.state]
        return [np.asarray(variable).tolist() for variable in variables]

    value = make()
    change(value)
    path = Checkpoint(value=value).save(tmp_path / "ckpt")
    other = make()
    assert values(other) != values(value)
    Checkpoint(value=other).restore(path).assert_consumed()
    assert values(other) == values(value)
