"""Variables of Mirrax as optimizers of Keras see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from mirrax.context import stack
from mirrax.integrations.keras import internals
from mirrax.integrations.keras.variables import attach, twin_of
from mirrax.variables.variable import Variable

_FACE = "_keras_face"


def faces_of(variables: Sequence[Any]) -> list[Any]:
    """Returns variables as Keras', to be given to an optimizer."""
    return [face_of(v) if isinstance(v, Variable) else v for v in variables]


def face_of(variable: Variable) -> Any:
    """Returns the Keras variable that stands for one of Mirrax, always the same."""
    face = variable.__dict__.get(_FACE)
    # A copy of a variable starts with what the first one had.
    if face is None or twin_of(face) is not variable:
        face = variable.__dict__[_FACE] = _made(variable)
    return face


def _made(variable: Variable) -> Any:
    # Outside of every strategy: the variable belongs to one already, or to none.
    with stack.entered(None), jax.ensure_compile_time_eval():
        face = keras.Variable(
            jnp.zeros(variable.shape, variable.dtype),
            trainable=variable.trainable,
            name=variable.name.partition(":")[0].replace("/", "_"),
        )
    internals.set_array(face, None)
    attach(face, variable)
    return face
