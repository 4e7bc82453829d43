"""Keras' PyDataset, the real one."""

import os

import numpy as np
import pytest

from mirrax.data import as_dataset
from tests.data.plans import plain, resumed

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")


class Batches(keras.utils.PyDataset):
    """Batches of 4 of 10 numbers; `log` holds the calls at the borders of epochs."""

    def __init__(self, count=3):
        super().__init__()
        self.count = count
        self.log = []

    @property
    def num_batches(self):
        return self.count

    def __getitem__(self, index):
        x = np.arange(10)[index * 4 : index * 4 + 4]
        return x, x * 2

    def on_epoch_begin(self):
        self.log.append("begin")

    def on_epoch_end(self):
        self.log.append("end")


def test_batches_are_divided(two_replicas):
    steps = [
        [part.tolist() for part in x.values]
        for x, _ in two_replicas.experimental_distribute_dataset(Batches())
    ]
    assert steps == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8], [9]]]


def test_an_epoch_has_a_begin_and_an_end():
    batches = Batches()
    dataset = as_dataset(batches)
    assert [len(list(dataset)) for _ in range(2)] == [3, 3]
    assert batches.log == ["begin", "end"] * 2


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_position_resumes_by_number(position):
    rest, other = resumed(lambda: as_dataset(Batches()), position)
    assert other == rest


def test_batches_without_end_are_endless():
    dataset = as_dataset(Batches(count=None))
    assert dataset.cardinality() == -1
    assert len(list(dataset.take(5))) == 5


def test_the_number_of_batches_is_known():
    assert len(as_dataset(Batches())) == 3


def test_pairs_are_arguments_of_a_function():
    first, *_ = as_dataset(Batches()).map(lambda x, y: y - x)
    assert plain(first) == ("<i8", [0, 1, 2, 3])
