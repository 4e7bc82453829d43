"""Datasets of TensorFlow: a stand-in, and the real ones where TensorFlow is at hand."""

import os
import subprocess
import sys
import types

import numpy as np
import pytest

from mirrax.data import as_dataset
from tests.data.plans import through_json, values

# An interpreter of an environment with TensorFlow, which need not be this one.
REAL = os.environ.get("MIRRAX_TENSORFLOW_PYTHON")
PROGRAM = """
import numpy as np
import tensorflow as tf
from mirrax.data import as_dataset

pairs = tf.data.Dataset.range(7).map(lambda x: (x, tf.as_string(x)))
dataset = as_dataset(pairs.batch(3))
found = [(x.tolist(), y.tolist()) for x, y in dataset]
assert found == [
    ([0, 1, 2], [b"0", b"1", b"2"]), ([3, 4, 5], [b"3", b"4", b"5"]), ([6], [b"6"])
], found
assert len(dataset) == 3
assert as_dataset(tf.data.Dataset.range(2).repeat()).cardinality() == -1
(tensor,) = as_dataset([tf.constant([1, 2])])
assert tensor.tolist() == [1, 2]
print("ok")
"""


class Numbers:
    """What Mirrax uses of a `tf.data.Dataset`."""

    def cardinality(self):
        return np.int64(2)

    def as_numpy_iterator(self):
        return iter([np.arange(3), np.arange(3, 5)])


@pytest.fixture
def tensorflow(monkeypatch):
    module = types.SimpleNamespace(data=types.SimpleNamespace(Dataset=Numbers))
    monkeypatch.setitem(sys.modules, "tensorflow", module)


@pytest.mark.usefixtures("tensorflow")
def test_elements_are_those_of_tensorflow():
    dataset = as_dataset(Numbers())
    assert values(dataset) == [[0, 1, 2], [3, 4]]
    assert len(dataset) == 2


@pytest.mark.usefixtures("tensorflow")
def test_a_position_is_read_again_and_skipped():
    iterator = iter(as_dataset(Numbers()))
    next(iterator)
    other = iter(as_dataset(Numbers()))
    with pytest.warns(UserWarning, match=r"tf.data.Dataset cannot go to a position"):
        other.restore_state(through_json(iterator.save_state()))
    assert values(other) == [[3, 4]]


@pytest.mark.usefixtures("tensorflow")
def test_batches_are_divided(two_replicas):
    distributed = two_replicas.experimental_distribute_dataset(Numbers())
    found = [[part.tolist() for part in step.values] for step in distributed]
    assert found == [[[0, 1], [2]], [[3], [4]]]


@pytest.mark.skipif(not REAL, reason="MIRRAX_TENSORFLOW_PYTHON names no interpreter")
def test_real_datasets_of_tensorflow_are_taken():
    result = subprocess.run(
        [REAL, "-c", PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.stdout.endswith("ok\n"), result.stderr
