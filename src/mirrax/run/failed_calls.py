"""What the error of a call of a program means for variables."""

from __future__ import annotations

from collections.abc import Sequence

from mirrax.variables import lending
from mirrax.variables.variable import Variable


def explain(error: Exception, changed: Sequence[Variable]) -> None:
    """Adds to `error`, which a call raised, which of these variables are lost.

    Args:
        error: What the call raised.
        changed: The variables whose arrays it overwrites.
    """
    lost = [v for v in changed if v.stored.is_deleted()]
    if lost:
        error.add_note(lending.loss_of([variable.name for variable in lost]))
