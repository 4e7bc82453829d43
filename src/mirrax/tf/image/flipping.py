"""Flipping and rotation of images."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.exports import defined_after
from mirrax.tf.random.ambient import next_key
from mirrax.tf.random.stateless import key_of
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())

_HEIGHT, _WIDTH = -3, -2


def flip_left_right(image: Any) -> Any:
    return jnp.flip(tensor(image), _WIDTH)


def flip_up_down(image: Any) -> Any:
    return jnp.flip(tensor(image), _HEIGHT)


def transpose(image: Any, name: Any = None) -> Any:
    """Swaps the rows and columns of images."""
    return jnp.swapaxes(tensor(image), _HEIGHT, _WIDTH)


def rot90(image: Any, k: int = 1, name: Any = None) -> Any:
    """Rotates images counter-clockwise by `k` times 90 degrees."""
    return jnp.rot90(tensor(image), k, axes=(_HEIGHT, _WIDTH))


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


__all__ = list(defined_after(_PRIVATE, globals()))
