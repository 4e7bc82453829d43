"""What the error of a call of a program means for arguments and variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrax import jax_internals
from mirrax.variables import lending
from mirrax.variables.variable import Variable


def explain(
    error: Exception, arguments: Sequence[Any], changed: Sequence[Variable]
) -> None:
    """Raises a better error, or adds to `error` what is lost.

    Args:
        error: What the call raised.
        arguments: What it was given.
        changed: The variables whose arrays it overwrites.
    """
    if any(jax_internals.is_stored(a) and a.is_deleted() for a in arguments):
        raise ValueError(
            "An array that a call was given through `donate_argnums` is gone after "
            "it. Received: such an array as an argument. Use what that call returned, "
            "give it a copy (`jnp.copy(x)`), or leave the argument out of its "
            "`donate_argnums`."
        ) from error
    lost = [v for v in changed if v.stored.is_deleted()]
    if lost:
        error.add_note(lending.loss_of([variable.name for variable in lost]))
