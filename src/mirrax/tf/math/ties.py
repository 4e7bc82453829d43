"""Functions with a kink, whose gradients there are TensorFlow's, not JAX's.

Of two equal arguments, the first gets the whole gradient; JAX divides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def _choice(choose: Callable[..., Any], is_first: Callable[..., Any]) -> Any:
    """Returns a function of two arrays that chooses the first one where that holds."""

    @jax.custom_jvp
    def choice(x: Any, y: Any) -> Any:
        return choose(x, y)

    @choice.defjvp
    def _jvp(primals: Any, tangents: Any) -> Any:
        return choose(*primals), jnp.where(is_first(*primals), *tangents)

    return choice


maximum = _choice(jnp.maximum, jnp.greater_equal)
minimum = _choice(jnp.minimum, jnp.less_equal)


@jax.custom_jvp
def clip(x: Any, low: Any, high: Any) -> Any:
    return jnp.minimum(jnp.maximum(x, low), high)


@clip.defjvp
def _clip_jvp(primals: Any, tangents: Any) -> Any:
    x, low, high = primals
    of_x, of_low, of_high = tangents
    outside = jnp.where(x < low, of_low, of_high)
    return clip(x, low, high), jnp.where((x < low) | (x > high), outside, of_x)


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
