"""Gradients where functions have a kink; the numbers are TensorFlow's."""

import numpy as np
import pytest

from mirrax import tf

CASES = {
    "maximum": (tf.maximum, [[1.0, 2.0, 0.0], [1.0, 1.0, 3.0]], [[1, 1, 0], [0, 0, 1]]),
    "minimum": (tf.minimum, [[1.0, 2.0, 0.0], [1.0, 1.0, 3.0]], [[1, 0, 1], [0, 1, 0]]),
    "broadcast": (tf.maximum, [[1.0, 2.0], 1.0], [[1, 1], 0]),
    "clip": (
        tf.clip_by_value,
        [[-1.0, 0.0, 0.5, 1.0, 2.0], 0.0, 1.0],
        [[0, 1, 1, 1, 0], 1, 1],
    ),
    "abs": (tf.abs, [[-1.0, 0.0, 2.0]], [[-1, 0, 1]]),
    "leaky_relu": (tf.nn.leaky_relu, [[-1.0, 0.0, 2.0]], [[0.2, 0.2, 1]]),
    "relu6": (tf.nn.relu6, [[-1.0, 0.0, 2.0, 6.0]], [[0, 0, 1, 0]]),
    "selu": (tf.nn.selu, [[-1.0, 0.0, 2.0]], [[0.6467686, 1.050701, 1.050701]]),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x, 1.0), [[1.0, 0.0]], [[0, 1]]),
    "xlogy": (tf.math.xlogy, [[0.0, 1.0], [0.0, 2.0]], [[0, 0.6931472], [0, 0.5]]),
    "sigmoid_cross_entropy": (
        lambda x: tf.nn.sigmoid_cross_entropy_with_logits([0.3, 1.0], x),
        [[0.0, 0.0]],
        [[0.2, -0.5]],
    ),
}


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_at_ties_are_tensorflows(name, is_compiled):
    function, arguments, expected = CASES[name]

    def gradients(*sources):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            result = function(*sources)
        return tape.gradient(result, sources)

    run = tf.function(gradients) if is_compiled else gradients
    found = run(*[tf.constant(value) for value in arguments])
    for gradient, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-6)


def test_integers_and_nan_have_a_maximum():
    assert tf.maximum(tf.constant([1, 5]), 3).numpy().tolist() == [3, 5]
    assert tf.abs(tf.constant([-1, 5])).numpy().tolist() == [1, 5]
    assert np.isnan(tf.maximum(np.float32("nan"), 1.0).numpy())
    assert tf.clip_by_value(tf.constant([1, 5]), 2, 3).numpy().tolist() == [2, 3]
