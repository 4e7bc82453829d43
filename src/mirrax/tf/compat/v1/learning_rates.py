"""Learning rate schedules, as functions without arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from mirrax.tf.namespaces.operations import operations
from mirrax.tf.tensors.tensor import tensor

Rate = Callable[[], Any]

_PRIVATE = frozenset(globals())


def _decay(formula: Callable[[Any, Any, Any], Any]) -> Callable[..., Rate]:
    """Returns a schedule; `formula` takes the first rate, the decay and the periods."""

    def decay(
        learning_rate: Any,
        global_step: Any,
        decay_steps: Any,
        decay_rate: Any,
        staircase: bool = False,
    ) -> Rate:
        """Returns a function that returns the learning rate at the current step."""

        def rate() -> Any:
            periods = _number(global_step) / decay_steps
            if staircase:
                periods = jnp.floor(periods)
            return formula(learning_rate, decay_rate, periods)

        return rate

    return decay


exponential_decay = _decay(lambda rate, decay, periods: rate * decay**periods)
natural_exp_decay = _decay(lambda rate, decay, n: rate * math.exp(-decay) ** n)
inverse_time_decay = _decay(lambda rate, decay, n: rate / (1 + decay * n))


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Rate:
    def rate() -> Any:
        step, steps = _number(global_step), _number(decay_steps)
        if cycle:
            steps = steps * jnp.maximum(jnp.ceil(step / steps), 1)
        left = 1 - jnp.minimum(step, steps) / steps
        return (learning_rate - end_learning_rate) * left**power + end_learning_rate

    return rate


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0
) -> Rate:
    def rate() -> Any:
        done = jnp.minimum(_number(global_step), decay_steps) / decay_steps
        cosine = 0.5 * (1 + jnp.cos(math.pi * done))
        return learning_rate * ((1 - alpha) * cosine + alpha)

    return rate


def piecewise_constant(x: Any, boundaries: Any, values: Any) -> Rate:
    """Returns a function that returns the value for the current step."""
    if len(values) != len(boundaries) + 1:
        raise ValueError(
            "`values` must have one element more than `boundaries`. Received: "
            f"{len(boundaries)} boundaries and {len(values)} values."
        )

    def rate() -> Any:
        index = jnp.searchsorted(tensor(boundaries), tensor(x), side="left")
        return tensor(values)[index]

    return rate


piecewise_constant_decay = piecewise_constant


def _number(step: Any) -> Any:
    return tensor(step).astype(jnp.float32)


operations(globals(), _PRIVATE)
