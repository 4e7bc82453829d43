"""Derivatives in forward direction, with the answers of TensorFlow 2.21."""

import numpy as np
import pytest

from mirrax import tf

wraps = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["e", "c"])
X = tf.constant([[2.0, 3.0], [1.0, 4.0]])
TANGENT = tf.constant([[0.9, 0.8], [0.7, 0.6]])


@wraps
def test_products_of_jacobians(wrap):
    @wrap
    def program(x, tangent):
        with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
            product = tf.matmul(x, x)
            total = tf.reduce_sum(tf.sin(x) * x)
        return accumulator.jvp([product, {"total": total}])

    product, total = program(X, TANGENT)
    np.testing.assert_allclose(product, [[6.5, 9.3], [5.7, 7.7]], rtol=1e-5)
    assert float(total["total"]) == pytest.approx(-3.2494, rel=1e-4)


@wraps
def test_products_with_complex_numbers(wrap):
    @wrap
    def program(z, tangent):
        with tf.autodiff.ForwardAccumulator(z, tangent) as accumulator:
            values = [z * z * 1j, tf.math.conj(z) * z, tf.abs(z) ** 2]
        return accumulator.jvp(values)

    found = program(tf.constant(1.0 + 2.0j), tf.constant(1.0 + 1.0j))
    np.testing.assert_allclose(found, [-6 - 2j, 6, 6], rtol=1e-6)


@wraps
def test_products_with_hessians(wrap):
    @wrap
    def forward_over_reverse(x, tangent):
        with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.matmul(x, x) ** 2)
            gradient = tape.gradient(y, x)
        return accumulator.jvp(gradient)

    @wrap
    def reverse_over_forward(x, tangent):
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
                y = tf.reduce_sum(tf.matmul(x, x) ** 2)
            product = accumulator.jvp(y)
        return tape.gradient(product, x)

    expected = [[181.6, 230.4], [213.2, 273.2]]
    for program in (forward_over_reverse, reverse_over_forward):
        np.testing.assert_allclose(program(X, TANGENT), expected, rtol=1e-5)


@wraps
def test_derivatives_of_products_in_forward_direction(wrap):
    @wrap
    def program(x, tangent):
        with tf.autodiff.ForwardAccumulator(x, tangent) as outer:
            with tf.autodiff.ForwardAccumulator(x, tangent) as inner:
                y = tf.matmul(x, x) ** 2
            product = inner.jvp(y)
        return outer.jvp(product)

    expected = [[122.86, 259.38], [90.18, 188.5]]
    np.testing.assert_allclose(program(X, TANGENT), expected, rtol=1e-5)


def test_primals_can_be_variables():
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    tangents = [tf.constant([1.0, 0.0]), 2.0]
    with tf.autodiff.ForwardAccumulator([v, w], tangents) as accumulator:
        y, z = v * v * w, w * 2.0
    assert [x.numpy().tolist() for x in accumulator.jvp((y, z))] == [[8, 8], 4]


@pytest.mark.parametrize("choice", ["zero", tf.UnconnectedGradients.ZERO], ids=str)
def test_values_that_do_not_depend_on_primals_have_no_product(choice):
    with tf.autodiff.ForwardAccumulator(X, TANGENT) as accumulator:
        other, index = tf.constant(1.0), tf.argmax(X, 1)
    assert accumulator.jvp([other, index]) == [None, None]
    zeros = accumulator.jvp([other, index], unconnected_gradients=choice)
    assert [x.numpy().tolist() for x in zeros] == [0, [0, 0]]
    np.testing.assert_array_equal(accumulator.jvp(X), TANGENT)


def test_accumulators_can_be_entered_again():
    x = tf.constant(2.0)
    accumulator = tf.autodiff.ForwardAccumulator(x, 1.0)
    with accumulator:
        y = x * x
        with pytest.raises(ValueError, match="already recording"), accumulator:
            pass
    with accumulator:
        z = y * x
    assert float(accumulator.jvp(z)) == 12


@pytest.mark.parametrize(
    ("primals", "tangents", "message"),
    [
        ([X, X], [TANGENT, TANGENT], "specified as a primal multiple times"),
        (X, 1.0, "must have the shape and dtype of its primal"),
    ],
    ids=["twice", "shape"],
)
def test_wrong_tangents_are_refused(primals, tangents, message):
    with pytest.raises(ValueError, match=message):
        tf.autodiff.ForwardAccumulator(primals, tangents)
