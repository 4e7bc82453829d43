"""Helpers to replace methods of Keras."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from mirrax.context import stack
from mirrax.strategy.default_strategy import DefaultStrategy


@dataclasses.dataclass(frozen=True)
class ChiefOnly(stack.CrossReplica):
    """Code that only the first worker runs; see `multi_worker.run_on_chief`.

    Args:
        ask: Makes the other workers take part in an operation on a variable.
    """

    ask: Callable[[str, Any], None] = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Fitting(stack.CrossReplica):
    """Code inside `fit`, `evaluate`, ... of a model of `strategy`."""


@dataclasses.dataclass(frozen=True)
class PassingState(Fitting):
    """Code of Keras that passes the arrays of variables to steps, as they are."""


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replaces `owner.name` by `around(original, *args, **kwargs)`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    setattr(
        owner, name, staticmethod(replacement) if name == "__new__" else replacement
    )


def defining_class(cls: type, name: str) -> type:
    """Returns the class that defines the method `name` of `cls`."""
    return next(base for base in cls.__mro__ if name in vars(base))


def current_strategy() -> Any:
    """Returns the strategy of the current scope; None without one."""
    frame = stack.frame()
    if frame is None or isinstance(frame, ChiefOnly):
        return None
    if isinstance(frame.strategy, DefaultStrategy):
        return None
    return frame.strategy


def replica() -> stack.Replica | None:
    """Returns the current replica, if the strategy has several."""
    frame = stack.frame()
    if isinstance(frame, stack.Replica) and not frame.strategy.topology.is_single:
        return frame
    return None
