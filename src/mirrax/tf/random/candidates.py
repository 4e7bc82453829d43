"""Classes drawn as negative examples."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, int64
from mirrax.tf.random.ambient import next_key
from mirrax.tf.tensors.tensor import tensor

__all__ = ["log_uniform_candidate_sampler", "uniform_candidate_sampler"]


class Candidates(NamedTuple):
    """The drawn classes, and how often the true and the drawn ones are expected."""

    sampled_candidates: Any
    true_expected_count: Any
    sampled_expected_count: Any


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
    name: Any = None,
) -> Candidates:
    """Draws classes that are numbered by falling frequency, as Zipf's law says."""
    classes = jnp.arange(range_max)
    weights = jnp.log1p(1 / (classes + 1)) / jnp.log(range_max + 1)
    return _draw(weights, true_classes, num_sampled, unique, seed)


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
    name: Any = None,
) -> Candidates:
    """Draws classes, each equally likely."""
    weights = jnp.full(range_max, 1 / range_max)
    return _draw(weights, true_classes, num_sampled, unique, seed)


def _draw(
    weights: Any, true_classes: Any, num_sampled: int, unique: bool, seed: Any
) -> Candidates:
    key, size = next_key(seed), (int(num_sampled),)
    drawn = jax.random.choice(key, len(weights), size, not unique, weights)
    # Of unique classes, the chance that so many draws contain the class.
    counts = 1 - (1 - weights) ** num_sampled if unique else weights * num_sampled
    true = counts[tensor(true_classes)]
    return Candidates(drawn.astype(canonical(int64)), true, counts[drawn])
