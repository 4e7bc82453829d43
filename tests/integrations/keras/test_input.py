"""What Keras models of a strategy can be given to train on."""

import grain
import keras
import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.integrations.keras.input import shard_batch
from tests.conftest import mirrored
from tests.integrations.keras.test_models import assert_same

ROWS = np.arange(14, dtype="float32").reshape(7, 2)
TARGETS = ROWS.sum(1, keepdims=True)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        rows = slice(4 * index, 4 * index + 4)
        return ROWS[rows], TARGETS[rows]


def generate():
    while True:
        for index in range(2):
            yield Batches()[index]


def dataset():
    return Dataset.from_tensor_slices((ROWS, TARGETS)).batch(4)


def grained():
    rows = grain.MapDataset.source(list(zip(ROWS, TARGETS, strict=True)))
    return rows.batch(4).repeat().to_iter_dataset()


INPUTS = {
    "arrays": lambda _: {"x": ROWS, "y": TARGETS, "batch_size": 4, "shuffle": False},
    "PyDataset": lambda _: {"x": Batches(), "shuffle": False},
    "generator": lambda _: {"x": generate(), "steps_per_epoch": 2, "shuffle": False},
    "grain": lambda _: {"x": grained(), "steps_per_epoch": 2, "shuffle": False},
    "dataset": lambda _: {"x": dataset()},
    "distributed": lambda s: {"x": s.experimental_distribute_dataset(dataset())},
    "from function": lambda s: {
        "x": s.distribute_datasets_from_function(
            lambda _: Dataset.from_tensor_slices((ROWS, TARGETS)).batch(2)
        )
    },
}


@pytest.fixture(scope="module")
def model():
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", weighted_metrics=["mae"])
    return model


def losses(model, **arguments):
    model.set_weights([np.full((2, 1), 0.1), np.zeros(1)])
    fitted = model.fit(epochs=2, verbose=0, **arguments)
    return fitted.history["loss"]


@pytest.mark.parametrize("kind", INPUTS)
def test_all_inputs_train_alike(model, kind):
    strategy = mirrored(2)
    expected = losses(model, **INPUTS["arrays"](strategy))
    assert_same(losses(model, **INPUTS[kind](strategy)), expected)


def test_dataset_can_be_evaluated_predicted_and_validated(model):
    expected = model.evaluate(ROWS, TARGETS, batch_size=4, verbose=0)
    assert_same(model.evaluate(dataset(), verbose=0), expected)
    assert_same(
        model.predict(Dataset.from_tensor_slices(ROWS).batch(4), verbose=0),
        model.predict(ROWS, batch_size=4, verbose=0),
    )
    fitted = model.fit(dataset(), validation_data=dataset(), verbose=0)
    assert_same(fitted.history["val_loss"][0], model.evaluate(dataset(), verbose=0)[0])


def test_classes_of_a_dataset_are_weighted(model):
    classes = (TARGETS[:, 0] > 13).astype("int32")
    weights = {0: 1.0, 1: 5.0}
    batches = Dataset.from_tensor_slices((ROWS, classes)).batch(4)
    expected = losses(
        model, x=ROWS, y=classes, batch_size=4, shuffle=False, class_weight=weights
    )
    assert_same(losses(model, x=batches, class_weight=weights), expected)
    split = mirrored(2).experimental_distribute_dataset(batches)
    assert_same(losses(model, x=split, class_weight=weights), expected)


def test_dataset_with_separate_targets_is_refused(model):
    with pytest.raises(ValueError, match="so `y` cannot be given"):
        model.fit(dataset(), TARGETS)


def test_dataset_with_two_kinds_of_weights_is_refused(model):
    weighted = Dataset.from_tensor_slices((ROWS, TARGETS, TARGETS[:, 0])).batch(4)
    with pytest.raises(ValueError, match="exclude each other"):
        model.fit(weighted, class_weight={0: 1.0})


def test_batch_is_split_where_it_divides_and_whole_elsewhere():
    topology = mirrored(2).topology
    even, odd, number, none = shard_batch((ROWS[:4], ROWS, 3.0, None), topology)
    assert even.sharding == topology.split
    assert odd.sharding == topology.replicated
    assert number.sharding == topology.replicated
    assert none is None
    np.testing.assert_array_equal(odd, ROWS)


def test_batch_does_not_share_memory_with_its_maker():
    buffer = np.zeros((4, 16), "float32")
    placed = shard_batch(buffer, mirrored(2).topology)
    buffer[:] = 1
    assert not np.asarray(placed).any()


def test_a_model_of_no_strategy_takes_datasets_too():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    dataset = Dataset.from_tensor_slices((ROWS, TARGETS)).batch(4)
    history = model.fit(dataset, validation_data=dataset, epochs=2, verbose=0)
    assert len(history.history["val_loss"]) == 2
    assert model.evaluate(dataset, verbose=0) == history.history["val_loss"][-1]
    assert model.predict(dataset.map(lambda x, y: x), verbose=0).shape == (7, 1)
