"""Functions with a kink, whose gradients there are TensorFlow's, not JAX's.

Of two equal arguments, the first gets the whole gradient; JAX divides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


@jax.custom_jvp
def maximum(x: Any, y: Any) -> Any:
    return jnp.maximum(x, y)


@maximum.defjvp
def _maximum_jvp(primals: Any, tangents: Any) -> Any:
    x, y = primals
    return jnp.maximum(x, y), _chosen(x >= y, *tangents)


@jax.custom_jvp
def minimum(x: Any, y: Any) -> Any:
    return jnp.minimum(x, y)


@minimum.defjvp
def _minimum_jvp(primals: Any, tangents: Any) -> Any:
    x, y = primals
    return jnp.minimum(x, y), _chosen(x <= y, *tangents)


@jax.custom_jvp
def clip(x: Any, low: Any, high: Any) -> Any:
    return jnp.minimum(jnp.maximum(x, low), high)


@clip.defjvp
def _clip_jvp(primals: Any, tangents: Any) -> Any:
    x, low, high = primals
    of_x, of_low, of_high = tangents
    outside = _chosen(x < low, of_low, of_high)
    return clip(x, low, high), _chosen((x < low) | (x > high), outside, of_x)


@jax.custom_jvp
def absolute(x: Any) -> Any:
    return jnp.abs(x)


@absolute.defjvp
def _absolute_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (of_x,) = primals, tangents
    if jnp.iscomplexobj(x):
        return jax.jvp(jnp.abs, (x,), (of_x,))
    return jnp.abs(x), jnp.sign(x) * of_x


def unless_zero(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns a function that is 0, as are its gradients, where `x` is 0."""

    def of_others(x: Any, y: Any) -> Any:
        is_zero = jnp.equal(x, 0)
        result = function(jnp.where(is_zero, 1, x), jnp.where(is_zero, 1, y))
        return jnp.where(is_zero, 0, result)

    return of_others


def _chosen(is_first: Any, first: Any, second: Any) -> Any:
    return jnp.where(is_first, first, second)
