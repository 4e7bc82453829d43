"""`tf.gradients` and `tf.hessians`."""

import pytest

from mirrax import tf


def test_gradients_of_arguments_variables_and_intermediate_values():
    v = tf.Variable(3.0)

    @tf.function
    def fn(x, other):
        y = x * v
        z = y * y
        return tf.gradients(z, [x, v, y, other]), tf.gradients([z, y], x, [1.0, 2.0])

    (by_x, by_v, by_y, by_other), (weighted,) = fn(tf.constant(2.0), tf.constant(1.0))
    assert [float(g) for g in (by_x, by_v, by_y)] == [36.0, 24.0, 12.0]
    assert by_other is None
    assert float(weighted) == 42.0


def test_hessians_and_gradients_of_gradients():
    v = tf.Variable([1.0, 2.0], trainable=False)

    @tf.function
    def fn():
        total = tf.reduce_sum(v**3)
        (slope,) = tf.gradients(total, v)
        return tf.hessians(total, v)[0], tf.gradients(slope, v)[0]

    hessian, second = fn()
    assert hessian.tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert second.tolist() == [6.0, 12.0]


def test_gradient_penalty_in_replicas():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        w = tf.Variable([3.0, 4.0])

    def penalty(x):
        (slope,) = tf.gradients(tf.reduce_sum(x * w), x)
        return tf.gradients((tf.norm(slope) - 1.0) ** 2, w)[0]

    @tf.function
    def step(x):
        return strategy.reduce("MEAN", strategy.run(penalty, (x,)), axis=None)

    assert step(tf.ones(2)).numpy().tolist() == pytest.approx([4.8, 6.4])


def test_eager_code_has_no_earlier_values():
    x = tf.constant(1.0)
    with pytest.raises(RuntimeError, match="known only while a function is traced"):
        tf.gradients(x * x, x)
