"""`tf.compat.v1.train`: the global step, optimizers, rates, and names of version 2."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

import mirrax
from mirrax.tf.compat.v1.learning_rates import *  # noqa: F403
from mirrax.tf.compat.v1.optimizers import *  # noqa: F403
from mirrax.tf.train import *  # noqa: F403
from mirrax.tf.train.checkpoints import checkpoint_exists as checkpoint_exists
from mirrax.tf.train.checkpoints import load_checkpoint as NewCheckpointReader  # noqa: F401, N812
from mirrax.tf.variables.variable_methods import make_variable

# The global step: a variable for each strategy.
_steps: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def get_global_step(graph: Any = None) -> Any:
    """Returns the step counter of the current strategy; None if there is none yet."""
    return _steps.get(mirrax.get_strategy())


def create_global_step(graph: Any = None) -> Any:
    """Creates the step counter of the current strategy."""
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
    """Returns the step counter of the current strategy."""
    found = get_global_step()
    return create_global_step() if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Returns the number of steps so far."""
    return int(global_step_tensor.numpy())
