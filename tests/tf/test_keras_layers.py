"""Layers of `tf.keras` that Keras writes with TensorFlow."""

import numpy as np
import pytest

from mirrax import tf

layers = tf.keras.layers


def test_strings_are_looked_up():
    layer = layers.StringLookup(vocabulary=["a", "b", "c"])
    found = layer(tf.constant([["a", "c"], ["z", "b"]]))
    assert found.numpy().tolist() == [[1, 3], [0, 2]]
    assert layer.get_vocabulary() == ["[UNK]", "a", "b", "c"]
    assert layer.vocabulary_size() == 4


def test_vocabulary_may_contain_special_tokens():
    given = ["", "[UNK]", "a"]
    layer = layers.StringLookup(vocabulary=given, mask_token="")
    assert layer(["", "a", "z"]).numpy().tolist() == [0, 2, 1]
    assert layer.get_vocabulary() == given
    assert layer.get_vocabulary(include_special_tokens=False) == ["a"]


def test_indices_are_turned_into_strings():
    layer = layers.StringLookup(vocabulary=["a", "b"], invert=True)
    assert layer([[1, 2], [0, 9]]).numpy().tolist() == [
        [b"a", b"b"],
        [b"[UNK]", b"[UNK]"],
    ]


def test_vocabulary_is_taken_from_a_dataset():
    layer = layers.StringLookup(max_tokens=3)
    layer.adapt(tf.data.Dataset.from_tensor_slices(["a", "c", "b", "c"]).batch(3))
    assert layer.get_vocabulary() == ["[UNK]", "c", "b"]


def test_string_lookup_adapts_to_some_steps():
    layer = layers.StringLookup()
    layer.adapt(np.array(["a", "b", "c"]), steps=2)
    assert layer.get_vocabulary() == ["[UNK]", "b", "a"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("one_hot", [[0, 1, 0], [0, 1, 0], [1, 0, 0]]),
        ("multi_hot", [1, 1, 0]),
        ("count", [1, 2, 0]),
    ],
)
def test_output_modes(mode, expected):
    layer = layers.StringLookup(vocabulary=["a", "b"], output_mode=mode)
    assert layer(["a", "a", "z"]).numpy().tolist() == expected


def test_strings_are_looked_up_in_a_dataset():
    layer = layers.StringLookup(vocabulary=["a", "b"], num_oov_indices=0)
    dataset = tf.data.Dataset.from_tensor_slices(["b", "a"]).map(layer)
    assert [int(x) for x in dataset] == [1, 0]
    with pytest.raises(ValueError, match=r"Received: b'z'. Use `num_oov_indices=1`"):
        layer(["z"])


def test_lookup_in_a_model_is_refused_with_advice():
    with pytest.raises(NotImplementedError, match=r"in `Dataset.map`"):
        layers.StringLookup(vocabulary=["a"])(tf.keras.Input((1,), dtype="string"))


@pytest.mark.parametrize("name", ["Hashing", "IntegerLookup", "TextVectorization"])
def test_layers_that_need_tensorflow_give_advice(name):
    with pytest.raises(NotImplementedError, match=r"in `Dataset.map`"):
        getattr(layers, name)()


def test_normalization_adapts_to_a_dataset():
    layer = layers.Normalization()
    rows = np.array([[0.0], [2.0], [4.0], [6.0]], np.float32)
    layer.adapt(tf.data.Dataset.from_tensor_slices(rows).batch(2))
    np.testing.assert_allclose(layer(rows[:2]), [[-1.3416408], [-0.4472136]], 1e-5)
