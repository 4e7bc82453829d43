"""Deferred restoration: callbacks once a model or optimizer has its variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from mirrax.integrations.keras import hooks, internals
from mirrax.integrations.keras.variable_hooks import is_initialized

_CALLBACKS = "_mirrax_callbacks"


def install() -> None:
    """Runs the callbacks of layers after they are built."""
    hooks.wrap(*internals.AFTER_BUILD, _after_build)


def is_complete(value: Any) -> bool:
    """Returns whether a layer, a metric or an optimizer has all its variables."""
    is_built = isinstance(value, keras.metrics.Metric) or value.built
    return bool(is_built) and all(map(is_initialized, value.variables))


def when_complete(value: Any, then: Callable[[], bool]) -> None:
    """Calls `then` when a layer or optimizer gets variables, until it returns True."""
    value.__dict__.setdefault(_CALLBACKS, []).append(then)
    optimizer = getattr(value, "optimizer", None)
    if optimizer is not None:
        when_complete(optimizer, then)


def run_callbacks(value: Any) -> None:
    """Runs the callbacks of `value` if it has all its variables."""
    waiting = value.__dict__.get(_CALLBACKS)
    if waiting and internals.stateless_scope() is None and is_complete(value):
        value.__dict__[_CALLBACKS] = [then for then in waiting if not then()]


def build_optimizer(optimizer: Any, variables: Sequence[Any] | None) -> None:
    """Builds an optimizer before its first step, if it has callbacks."""
    if optimizer.__dict__.get(_CALLBACKS):
        if variables is not None and not optimizer.built:
            optimizer.build(list(variables))
        run_callbacks(optimizer)


def _after_build(original: Callable[..., None], layer: Any) -> None:
    original(layer)
    is_awaited = _CALLBACKS in layer.__dict__ and internals.stateless_scope() is None
    if is_awaited and not all(held.built for held in internals.layers_of(layer)):
        # The first call would answer before they are restored.
        internals.build_layers_of(layer)
    run_callbacks(layer)
    optimizer = getattr(layer, "optimizer", None)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        # `fit` has just built it.
        run_callbacks(optimizer)
