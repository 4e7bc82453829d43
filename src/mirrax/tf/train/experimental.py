"""`tf.train.experimental`."""

from __future__ import annotations

import abc
from typing import Any


class PythonState(abc.ABC):
    """An object that a checkpoint saves as the bytes of its `serialize`."""

    @abc.abstractmethod
    def serialize(self) -> Any:
        """Returns the state as text or bytes."""

    @abc.abstractmethod
    def deserialize(self, string_value: Any) -> None:
        """Restores the state from bytes."""

    @property
    def py_state(self) -> str:
        """The bytes as text, a character for each byte."""
        state = self.serialize()
        encoded = state.encode() if isinstance(state, str) else state
        return bytes(encoded).decode("latin1")

    @py_state.setter
    def py_state(self, text: str) -> None:
        self.deserialize(text.encode("latin1"))

    def checkpoint_contents(self) -> dict[str, Any]:
        """Returns what a checkpoint saves."""
        return {"py_state": self.py_state}
