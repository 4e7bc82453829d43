"""Where a worker is in its program, as it tells the others."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Position:
    """How far a worker has come.

    Args:
        count: How many times it has waited for the others, or is about to.
        phase: What it does, or did last, together with the others.
        step: In which step.
        waiting: For how many seconds it has been waiting; None if it is not.
        limit: After how many seconds it takes the others for stuck.
    """

    count: int = 0
    phase: str = "start-up"
    step: int | None = None
    waiting: float | None = None
    limit: float = float("inf")

    def as_fields(self) -> dict[str, Any]:
        """Returns the position as fields of a message."""
        return dataclasses.asdict(self)

    def describe(self) -> str:
        """Returns phase and step in words.

        >>> Position(3, "run", step=7).describe()
        "phase 'run', step 7"
        """
        step = "" if self.step is None else f", step {self.step}"
        return f"phase '{self.phase}'{step}"


def read_position(fields: dict[str, Any]) -> Position:
    """Returns the position that the fields of a message tell."""
    names = [field.name for field in dataclasses.fields(Position)]
    return Position(**{name: fields[name] for name in names if name in fields})
