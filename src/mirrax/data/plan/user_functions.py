"""Calls of a user's functions, and the errors that they raise."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax.errors import InvalidArgumentError

_log = logging.getLogger(__name__)


def call_with_element(
    function: Callable[..., Any], structure: Any, leaves: Sequence[Any]
) -> Any:
    """Returns `function` of an element; a tuple is given as separate arguments."""
    element = jax.tree.unflatten(structure, leaves)
    if isinstance(element, tuple) and not hasattr(element, "_fields"):
        return function(*element)
    return function(element)


@dataclasses.dataclass(slots=True)
class UserErrors:
    """Says which element an error of a user's function comes from.

    Errors get a note. With a `skip_log_level`, they are logged and suppressed instead.
    """

    operation: str
    number: int
    skip_log_level: int = 0

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, where: Any) -> bool:
        if self.skip_log_level and isinstance(error, Exception):
            text = "`%s` left out element %s because of its error: %r"
            level = self.skip_log_level
            _log.log(level, text, self.operation, self.number, error)
            return True
        if isinstance(error, StopIteration):
            # It would end the dataset without a word.
            raise InvalidArgumentError(
                f"A function given to `{self.operation}` must not raise StopIteration. "
                f"Received: one at element {self.number}. Give `next` a default value."
            ) from error
        if isinstance(error, Exception):
            error.add_note(
                f"[mirrax] raised by a function given to `{self.operation}`, at "
                f"element {self.number}"
            )
        return False
