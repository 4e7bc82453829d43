"""Mirrax variables in layers that Keras calls only for the shapes of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
from typing_extensions import override

from mirrax.context import stack
from mirrax.integrations.keras import hooks, internals
from mirrax.variables.overlay import Overlay
from mirrax.variables.variable import Variable


def install() -> None:
    """Lets layers read and write Mirrax variables in a symbolic call."""
    hooks.wrap(keras.Layer, "symbolic_call", _call)
    hooks.wrap(*internals.BUILD_SYMBOLICALLY, _call)


def _call(original: Callable[..., Any], layer: Any, *args: Any, **kw: Any) -> Any:
    if stack.overlay() is not None or not _holds_variables(layer):
        return original(layer, *args, **kw)
    with stack.overlaid(_ShapesOnly(inside_replica=False)):
        return original(layer, *args, **kw)


def _holds_variables(layer: Any) -> bool:
    return any(
        isinstance(leaf, Variable)
        for part in internals.layers_of(layer)
        for value in vars(part).values()
        for leaf in (value if isinstance(value, list | tuple) else (value,))
    )


class _ShapesOnly(Overlay):
    """Variables without values: what is written is dropped."""

    @override
    def knows(self, variable: Variable) -> bool:
        return True

    @override
    def read(self, variable: Variable) -> jax.Array:
        aval = variable.traced_aval(self.inside_replica)
        return jnp.zeros(aval.shape, aval.dtype)

    @override
    def write(self, variable: Variable, value: jax.Array) -> None:
        """Drops the value."""

    @override
    def require_current(self, variable: Variable) -> None:
        """Allows writes from any trace, because they are dropped."""
