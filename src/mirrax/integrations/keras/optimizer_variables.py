"""Keras variables that wrap variables of Mirrax, for Keras optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from mirrax.context import stack
from mirrax.integrations.keras import internals
from mirrax.integrations.keras.variables import attach, proxy_of
from mirrax.variables.variable import Variable

_KERAS_VARIABLE = "_keras_variable"


def as_keras_variables(variables: Sequence[Any]) -> list[Any]:
    """Wraps variables of Mirrax as Keras variables."""
    return [keras_variable_of(v) if isinstance(v, Variable) else v for v in variables]


def keras_variable_of(variable: Variable) -> Any:
    """Returns the Keras variable that wraps one of Mirrax, always the same."""
    made = variable.__dict__.get(_KERAS_VARIABLE)
    # A copy of a variable has the original's wrapper in its `__dict__`.
    if made is None or proxy_of(made) is not variable:
        made = variable.__dict__[_KERAS_VARIABLE] = _make(variable)
    return made


def _make(variable: Variable) -> Any:
    # Outside of every strategy: the variable belongs to one already, or to none.
    with stack.entered(None), jax.ensure_compile_time_eval():
        made = keras.Variable(
            jnp.zeros(variable.shape, variable.dtype),
            trainable=variable.trainable,
            name=variable.name.partition(":")[0].replace("/", "_"),
        )
    internals.set_array(made, None)
    attach(made, variable)
    return made
