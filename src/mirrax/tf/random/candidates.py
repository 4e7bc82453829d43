"""Classes drawn as negative examples, as for word embeddings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, float32, int64
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.random.ambient import next_key


class Candidates(NamedTuple):
    """Drawn classes, and how often given and drawn ones are expected."""

    sampled_candidates: jax.Array
    true_expected_count: jax.Array
    sampled_expected_count: jax.Array


def _sampler(shares: Callable[[int], Any]) -> Callable[..., Candidates]:
    """Returns a function that draws classes; `shares` gives how often each is drawn."""

    def sample(
        true_classes: Array,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: Any = None,
    ) -> Candidates:
        chances = shares(range_max)
        return _draw(next_key(seed), true_classes, chances, num_sampled, unique)

    return sample


def _log_uniform(count: int) -> Any:
    """Returns larger shares of small classes: they are sorted by frequency."""
    ranks = jnp.arange(count, dtype=float32)
    return jnp.log((ranks + 2) / (ranks + 1)) / jnp.log(count + 1.0)


log_uniform_candidate_sampler = _sampler(_log_uniform)
uniform_candidate_sampler = _sampler(lambda n: jnp.full(n, 1 / n, float32))


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
