"""The global step of version 1: a variable that counts steps, one for each strategy."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

import mirrax
from mirrax.tf.variable_kinds import make_variable

_steps: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def get_global_step(graph: Any = None) -> Any:
    """Returns the variable that counts steps; None if there is none yet."""
    return _steps.get(mirrax.get_strategy())


def create_global_step(graph: Any = None) -> Any:
    """Returns a new variable that counts steps."""
    if get_global_step() is not None:
        raise ValueError('"global_step" already exists. Use `get_global_step()`.')
    made = make_variable(
        np.int64(0),
        trainable=False,
        name="global_step",
        dtype=np.int64,
        aggregation=mirrax.VariableAggregation.ONLY_FIRST_REPLICA,
    )
    _steps[mirrax.get_strategy()] = made
    return made


def get_or_create_global_step(graph: Any = None) -> Any:
    """Returns the variable that counts steps of the strategy in force."""
    found = get_global_step()
    return create_global_step() if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Returns the number of steps."""
    return int(global_step_tensor.numpy())
