"""`tf.gradients` and `tf.hessians`, of what a function has computed so far."""

from __future__ import annotations

from typing import Any

import jax

from mirrax.tf.exports import defined_after
from mirrax.tf.functions.function import GradientTape, UnconnectedGradients
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Returns the gradients of the sum of `ys`, inside a `tf.function`.

    >>> @tf.function
    ... def slope(x):
    ...     return tf.gradients(x * x, x)[0]
    >>> float(slope(tf.constant(3.0)))
    6.0
    """
    if stop_gradients is not None:
        raise NotImplementedError(
            "`stop_gradients` is not supported. Received: stop_gradients="
            f"{stop_gradients!r}. Use `tf.stop_gradient` where the values are computed."
        )
    sources = _list(xs)
    tape = _tape_of(sources)
    found: list[Any] = tape.gradient(ys, sources, grad_ys, unconnected_gradients)
    return found


def hessians(ys: Any, xs: Any, **options: Any) -> list[Any]:
    """Returns the second derivatives of the sum of `ys` by each of `xs`."""
    sources = _list(xs)
    first = gradients(ys, sources, **options)
    tape = _tape_of(sources)
    return [tape.jacobian(g, x) for g, x in zip(first, sources, strict=True)]


def _list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


def _tape_of(sources: list[Any]) -> GradientTape:
    """Returns a tape of all that was computed so far, and that knows the variables."""
    tape = GradientTape(from_start=True)
    with tape:
        tape.watch(sources)
        jax.tree.map(tensor, sources)
    return tape


__all__ = list(defined_after(_PRIVATE, globals()))
