"""The mark on values that are equal on all replicas changes nothing about them."""

import jax
import jax.numpy as jnp

from mirrax.collectives.spmd import promise_mirrored


def test_promise_gives_the_value():
    assert promise_mirrored(jnp.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_promise_compiles_to_the_value():
    assert jax.jit(promise_mirrored)(jnp.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_promise_has_the_gradient_of_the_value():
    gradient = jax.grad(lambda x: jnp.sum(promise_mirrored(x) ** 2))(
        jnp.array([1.0, 3.0])
    )
    assert gradient.tolist() == [2.0, 6.0]


def test_promise_can_be_mapped():
    mapped = jax.vmap(promise_mirrored, in_axes=1, out_axes=1)(jnp.ones((2, 3)))
    assert mapped.shape == (2, 3)
