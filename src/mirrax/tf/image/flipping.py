"""Flipping and rotation of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.random.stateful import seeded
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())

_HEIGHT, _WIDTH = -3, -2


def flip_left_right(image: Array) -> Any:
    return jnp.flip(image, _WIDTH)


def flip_up_down(image: Array) -> Any:
    return jnp.flip(image, _HEIGHT)


def transpose(image: Array) -> Any:
    """Swaps the rows and columns of images."""
    return jnp.swapaxes(image, _HEIGHT, _WIDTH)


def rot90(image: Array, k: int = 1) -> Any:
    """Rotates images counter-clockwise by `k` times 90 degrees."""
    return jnp.rot90(image, k, axes=(_HEIGHT, _WIDTH))


def _random_flip(axis: int) -> Callable[..., Any]:
    """Returns a function that flips each image with a probability of 1/2."""

    def flip(key: Any, image: Any) -> Any:
        array = tensor(image)
        is_flipped = jax.random.bernoulli(key, shape=array.shape[:-3])
        chosen = is_flipped[..., None, None, None]
        return jnp.where(chosen, jnp.flip(array, axis), array)

    return flip


random_flip_left_right, stateless_random_flip_left_right = seeded(_random_flip(_WIDTH))
random_flip_up_down, stateless_random_flip_up_down = seeded(_random_flip(_HEIGHT))


operations(globals(), _PRIVATE)
