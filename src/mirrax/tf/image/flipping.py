"""Flipping and rotation of images."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.operations import Array, operations
from mirrax.tf.random.ambient import next_key
from mirrax.tf.random.stateless import key_of
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


def random_flip_left_right(image: Any, seed: Any = None) -> Any:
    """Flips each image with a probability of 1/2."""
    return _flipped(image, next_key(seed), _WIDTH)


def random_flip_up_down(image: Any, seed: Any = None) -> Any:
    return _flipped(image, next_key(seed), _HEIGHT)


def stateless_random_flip_left_right(image: Any, seed: Any) -> Any:
    return _flipped(image, key_of(seed), _WIDTH)


def stateless_random_flip_up_down(image: Any, seed: Any) -> Any:
    return _flipped(image, key_of(seed), _HEIGHT)


def _flipped(image: Any, key: Any, axis: int) -> Any:
    array = tensor(image)
    is_flipped = jax.random.bernoulli(key, shape=array.shape[:-3])
    return jnp.where(is_flipped[..., None, None, None], jnp.flip(array, axis), array)


operations(globals(), _PRIVATE)
