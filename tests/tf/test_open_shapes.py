"""Shapes stay shapes in a function whose signature leaves sizes open."""

import jax
import numpy as np
import pytest

from mirrax import tf

ROWS = tf.TensorSpec([None, 3])


def rows(count):
    return np.arange(3 * count, dtype=np.float32).reshape(count, 3)


@pytest.mark.parametrize(
    "body",
    [
        tf.shape,
        lambda x: tf.shape(x)[0],
        lambda x: tf.shape(x)[1],
        lambda x: tf.shape(x)[-2:],
        lambda x: tf.shape(x) * 2 + 1,
        lambda x: 7 - tf.shape(x),
        tf.size,
        lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32),
        lambda x: tf.reshape(x, [tf.shape(x)[0] * 3]),
        lambda x: tf.reshape(x, (tf.shape(x)[0], 1, -1)),
        lambda x: tf.reshape(x, tf.shape(x)[::-1]),
        lambda x: tf.zeros(tf.shape(x)),
        lambda x: tf.ones([tf.shape(x)[0]]),
        lambda x: tf.fill([2, tf.shape(x)[0]], 3.0),
        lambda x: tf.range(tf.shape(x)[0]),
        lambda x: tf.broadcast_to(tf.constant([1.0, 2.0, 3.0]), tf.shape(x)),
        lambda x: tf.gather(tf.shape(x), [1, 0]),
        lambda x: tf.concat([tf.shape(x), [2]], 0),
        lambda x: [size + 1 for size in tf.shape(x)],
    ],
)
def test_shapes_are_what_they_are_without_a_signature(body):
    step = tf.function(body, input_signature=[ROWS])
    for count in (4, 2, 1):
        found, expected = step(rows(count)), tf.function(body)(rows(count))
        jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert step.trace_count == 1


def test_a_shape_answers_what_a_tensor_is_asked():
    seen = []

    @tf.function(input_signature=[ROWS])
    def step(x):
        shape = tf.shape(x, out_type=tf.int32)
        seen.append((shape.dtype, tuple(shape.shape), shape.ndim, len(shape)))
        return shape[tf.argmin(x[0])]

    assert int(step(rows(4))) == 4
    assert seen == [(np.int32, (2,), 1, 2)]


def test_reduce_retracing_opens_what_differs():
    step = tf.function(tf.shape, reduce_retracing=True)
    shapes = [step(rows(count)).tolist() for count in (2, 4, 1, 3)]
    assert shapes == [[2, 3], [4, 3], [1, 3], [3, 3]]
    assert step.trace_count == 2
