"""`tf.function`, and gradients."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

import jax.numpy as jnp

import mirrax
from mirrax.tf.absent import replacement_of

__all__ = ["GradientTape", "UnconnectedGradients", "function"]


class UnconnectedGradients(enum.Enum):
    """What the gradient is of something that the target does not depend on."""

    NONE = "none"
    ZERO = "zero"


class GradientTape(mirrax.GradientTape):
    """`tf.GradientTape`."""

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        return super().jacobian(target, sources, unconnected_gradients)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Returns for each row of a batch the derivatives of `target` by `source`."""
        rows, others = target.shape[:1], source.shape[:1]
        if rows != others or not rows:
            raise ValueError(
                "Need first dimension of target shape and source shape to match. "
                f"Received: {tuple(target.shape)} and {tuple(source.shape)}."
            )
        whole = self.jacobian(target, source, unconnected_gradients)
        if whole is None:
            return None
        # A row depends on its own row alone: the others are zero.
        own = jnp.diagonal(whole, axis1=0, axis2=len(target.shape))
        return jnp.moveaxis(own, -1, 0)

    def __getattr__(self, name: str) -> NoReturn:
        full = f"tf.GradientTape.{name}"
        advice = "" if name.startswith("_") else f" {replacement_of(full)}"
        raise AttributeError(f"`mirrax.tf` has no `{full}`.{advice}", name=name)


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: Any = True,
    jit_compile: Any = None,
    reduce_retracing: Any = False,
    **experimental: Any,
) -> Any:
    """`tf.function`: Python numbers are part of the program, as in TensorFlow.

    `jit_compile`, `reduce_retracing` and options that start with `experimental_` are
    accepted and have no meaning here: each new shape is a new trace.
    """
    unknown = [name for name in experimental if not name.startswith("experimental_")]
    if unknown:
        raise TypeError(
            f"`tf.function` has no option {unknown[0]!r}. Use `input_signature`, or "
            "one of TensorFlow's."
        )
    return mirrax.function(
        func,
        input_signature=input_signature,
        static_numbers=True,
        python_decisions=bool(autograph),
    )
