"""`tf.keras.backend`, whose functions custom losses of Keras 2 use."""

import numpy as np
import pytest

from mirrax import tf

X = tf.constant([[1.0, -2.0], [3.0, 4.0]])
P = tf.constant([[0.5, 0.5], [0.1, 0.9]])
LABELS = tf.constant([0, 1])

CALLS = {
    "cast": ((X, "int32"), [[1, -2], [3, 4]]),
    "categorical_crossentropy": ((tf.one_hot(LABELS, 2), P), [0.6931472, 0.1053605]),
    "clip": ((X, 0.0, 3.0), [[1, 0], [3, 3]]),
    "concatenate": (([X, X],), [[1, -2, 1, -2], [3, 4, 3, 4]]),
    "dot": ((X, X), [[-5, -10], [15, 10]]),
    "flatten": ((X,), [1, -2, 3, 4]),
    "int_shape": ((X,), (2, 2)),
    "mean": ((X > 0,), 0.75),
    "ndim": ((X,), 2),
    "softmax": ((tf.zeros([1, 2]),), [[0.5, 0.5]]),
    "sparse_categorical_crossentropy": ((LABELS, P), [0.6931472, 0.1053605]),
    "square": ((X,), [[1, 4], [9, 16]]),
    "std": ((X, -1), [1.5, 0.5]),
    "sum": ((X, 0), [4, 2]),
    "switch": ((X > 0, X, lambda: -X), [[1, 2], [3, 4]]),
    "zeros": (((2,),), [0, 0]),
}


def test_switch_chooses_values_or_rows():
    switch = tf.keras.backend.switch
    assert switch(tf.constant(True), X, -X).tolist() == X.tolist()
    assert switch(tf.constant([True, False]), X, -X).tolist() == [[1, -2], [-3, -4]]


@pytest.mark.parametrize("name", CALLS)
def test_function_gives_what_tensorflow_gives(name):
    args, expected = CALLS[name]
    found = getattr(tf.keras.backend, name)(*args)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)


def test_custom_loss_trains():
    def dice_loss(y_true, y_pred):
        backend = tf.keras.backend
        true, pred = backend.flatten(y_true), backend.flatten(y_pred)
        overlap = backend.sum(true * pred)
        return 1 - (2 * overlap + 1) / (backend.sum(true) + backend.sum(pred) + 1)

    model = tf.keras.Sequential([tf.keras.layers.Dense(1, "sigmoid")])
    model.compile("sgd", dice_loss)
    losses = model.fit(np.ones((4, 2)), np.ones((4, 1)), epochs=2, verbose=0)
    assert losses.history["loss"][1] < losses.history["loss"][0]


def test_missing_function_names_a_replacement():
    with pytest.raises(NotImplementedError, match=r"Use `tf.GradientTape`"):
        tf.keras.backend.gradients(X, [X])


@pytest.mark.parametrize("part", ["losses", "metrics"])
def test_names_of_keras_that_its_namespace_for_tensorflow_lacks(part):
    module = getattr(tf.keras, part)
    assert module.mean_squared_error(X, X).tolist() == [0, 0]
    assert module.mean_absolute_error is module.MAE
