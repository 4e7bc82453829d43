"""Classes drawn as negative examples, as for word embeddings."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, float32, int64
from mirrax.tf.operations import Array, operations
from mirrax.tf.random.ambient import next_key


class Candidates(NamedTuple):
    """Drawn classes, and how often given and drawn ones are expected."""

    sampled_candidates: jax.Array
    true_expected_count: jax.Array
    sampled_expected_count: jax.Array


def log_uniform_candidate_sampler(
    true_classes: Array,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
) -> Candidates:
    """Draws small classes more often: for classes sorted by decreasing frequency."""
    ranks = jnp.arange(range_max, dtype=float32)
    shares = jnp.log((ranks + 2) / (ranks + 1)) / jnp.log(range_max + 1.0)
    return _draw(next_key(seed), true_classes, shares, num_sampled, unique)


def uniform_candidate_sampler(
    true_classes: Array,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
) -> Candidates:
    """Draws all classes equally often."""
    shares = jnp.full(range_max, 1 / range_max, float32)
    return _draw(next_key(seed), true_classes, shares, num_sampled, unique)


@functools.partial(jax.jit, static_argnames=("count", "unique"))
def _draw(key: Any, given: Any, shares: Any, count: int, unique: bool) -> Candidates:
    if unique:
        # Each class is first drawn after an exponential time: the first ones are those
        # that drawing until `count` classes are found would give, after so many tries.
        times = jax.random.exponential(key, shares.shape) / shares
        sampled = jnp.argsort(times)[:count]
        expected = -jnp.expm1(times[sampled[-1]] * jnp.log1p(-shares))
    else:
        sampled = jax.random.categorical(key, jnp.log(shares), shape=(count,))
        expected = count * shares
    return Candidates(
        sampled.astype(canonical(int64)), expected[given], expected[sampled]
    )


operations(globals())
