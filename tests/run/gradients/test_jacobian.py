"""Jacobians of a tape, and tapes that leave something out."""

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax


def eagerly(function):
    return function


ways = pytest.mark.parametrize(
    "way", [eagerly, mirrax.function], ids=["eager", "traced"]
)


@ways
def test_a_jacobian_has_the_dimensions_of_the_target_first(way):
    w = mirrax.Variable([1.0, 2.0, 3.0])

    def program(x):
        with mirrax.GradientTape() as tape:
            y = x * w[:2] * w[2]
        return tape.jacobian(y, [w, x])

    of_w, of_x = way(program)(jnp.array([5.0, 7.0]))
    # As TensorFlow 2.21 answers.
    assert np.asarray(of_w).tolist() == [[15.0, 0.0, 5.0], [0.0, 21.0, 14.0]]
    assert np.asarray(of_x).tolist() == [[3.0, 0.0], [0.0, 6.0]]


@ways
def test_the_jacobian_of_a_number_is_its_gradient(way):
    w = mirrax.Variable([1.0, 2.0])

    def program():
        with mirrax.GradientTape() as tape:
            y = jnp.sum(w * w)
        return tape.jacobian(y, w)

    assert np.asarray(way(program)()).tolist() == [2.0, 4.0]


@ways
def test_what_a_target_does_not_depend_on_has_no_jacobian(way):
    w, other = mirrax.Variable([1.0, 2.0]), mirrax.Variable(np.ones((3, 1), np.float32))

    def program():
        with mirrax.GradientTape() as tape:
            y = w * w
        assert tape.jacobian(y, other) is None
        return tape.jacobian(y, other, unconnected_gradients="zero")

    assert way(program)().shape == (2, 3, 1)


@ways
def test_what_is_computed_while_a_tape_stops_is_constant(way):
    w = mirrax.Variable([1.0, 2.0, 3.0])

    def program():
        with mirrax.GradientTape() as tape:
            y = w * w
            with tape.stop_recording():
                z = w * 3.0
            total = y * 2.0 + z
        return tape.gradient(total, w)

    assert np.asarray(way(program)()).tolist() == [4.0, 8.0, 12.0]


@ways
def test_a_tape_forgets_what_came_before_its_reset(way):
    w = mirrax.Variable([1.0, 2.0])

    def program():
        with mirrax.GradientTape() as tape:
            y = w * w
            tape.reset()
            total = y + w * 3.0
        return tape.gradient(total, w)

    assert np.asarray(way(program)()).tolist() == [3.0, 3.0]
