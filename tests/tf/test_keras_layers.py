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
        ("binary", [1, 1, 0]),
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


def test_layers_that_need_tensorflow_give_advice():
    with pytest.raises(NotImplementedError, match=r"in `Dataset.map`"):
        layers.Hashing()


def test_integers_are_looked_up():
    layer = layers.IntegerLookup()
    layer.adapt(np.array([[3, 3], [5, 7]]))
    assert layer.get_vocabulary() == [-1, 3, 7, 5]
    assert layer([3, 9]).tolist() == [1, 0]


def test_texts_become_indices_of_words():
    layer = layers.TextVectorization(max_tokens=5, output_sequence_length=4)
    texts = tf.data.Dataset.from_tensor_slices(["The cat, sat.", "the dog", "A cat"])
    layer.adapt(texts.batch(2))
    assert layer.get_vocabulary() == ["", "[UNK]", "the", "cat", "sat"]
    first, _ = texts.batch(2).map(layer)
    assert first.tolist() == [[2, 3, 4, 0], [2, 1, 0, 0]]
    assert layer("The cat").tolist() == [2, 3, 0, 0]


def test_texts_become_rows_of_counts():
    options = {"output_mode": "count", "ngrams": 2, "split": "character"}
    layer = layers.TextVectorization(vocabulary=["a", "b", "a b"], **options)
    assert layer(["abb", "c"]).tolist() == [[1, 1, 2, 1], [1, 0, 0, 0]]


def test_texts_are_split_by_a_function():
    layer = layers.TextVectorization(
        standardize=lambda texts: tf.strings.regex_replace(texts, "<br>", "|"),
        split=lambda texts: tf.strings.split(texts, "|"),
        vocabulary=["a", "b"],
    )
    assert layer([["a<br>b"], ["b|z"]]).tolist() == [[2, 3], [3, 1]]


def test_metrics_whose_result_is_a_variable():
    class Count(tf.keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="count")
            self.count = self.add_weight(name="count", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.count.assign_add(tf.cast(tf.shape(y_true)[0], tf.float32))

        def result(self):
            return self.count

    model = tf.keras.Sequential([tf.keras.Input((1,)), layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[Count()])
    history = model.fit(np.ones((6, 1)), np.ones(6), batch_size=4, verbose=0).history
    assert history["count"] == [6]


def test_normalization_adapts_to_a_dataset():
    layer = layers.Normalization()
    rows = np.array([[0.0], [2.0], [4.0], [6.0]], np.float32)
    layer.adapt(tf.data.Dataset.from_tensor_slices(rows).batch(2))
    np.testing.assert_allclose(layer(rows[:2]), [[-1.3416408], [-0.4472136]], 1e-5)


def test_sequential_model_begins_with_texts():
    texts, labels = np.array(["good film", "bad film", "good", "bad"]), [1, 0, 1, 0]
    words = layers.TextVectorization(output_sequence_length=3)
    words.adapt(texts)
    core = tf.keras.Sequential(
        [layers.Embedding(5, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)]
    )
    source = tf.keras.Input(shape=(1,), dtype=tf.string)
    model = tf.keras.Sequential([source, words, core])
    model.compile("sgd", "mse")
    raw = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(2)

    history = model.fit(raw, validation_data=(texts, np.array(labels)), verbose=0)
    core.compile("sgd", "mse")
    expected = core.evaluate(raw.map(lambda x, y: (words(x), y)), verbose=0)
    assert history.history["val_loss"] == [pytest.approx(expected)]
    assert model.evaluate(raw, verbose=0) == pytest.approx(expected)
    predicted = core(words(texts)).numpy()
    np.testing.assert_allclose(model(inputs=tf.constant(texts)), predicted, 1e-6)
    np.testing.assert_allclose(model.predict_on_batch(texts), predicted, 1e-6)
    assert model.test_on_batch(texts, np.array(labels)) == pytest.approx(expected)
    for given in (texts, raw.map(lambda x, y: x)):
        np.testing.assert_allclose(model.predict(given, verbose=0), predicted, 1e-6)
    with pytest.raises(NotImplementedError, match="Save the layers after it"):
        model.save("model.keras")


def test_words_of_texts_may_stay_ragged():
    words = layers.TextVectorization(vocabulary=["a", "b"], ragged=True)
    found = words(["a b a", "b"])
    assert found.to_list() == [[2, 3, 2], [3]]
    assert found[:, :-1].to_tensor().numpy().tolist() == [[2, 3], [0, 0]]


def test_fit_builds_layers_whose_initializer_is_a_random_function(strategy):
    with strategy.scope():
        model = tf.keras.Sequential(
            [layers.Dense(4, kernel_initializer=tf.random.normal)]
        )
    model.compile("sgd", "mse")
    model.fit(np.zeros((2, 3)), np.zeros((2, 4)), verbose=0)
    assert np.unique(model.weights[0]).size == 12
