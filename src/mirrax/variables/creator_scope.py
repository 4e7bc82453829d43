"""Creating variables: the chain of creators, and creation inside a replica."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from mirrax.context import stack
from mirrax.values.per_replica import PerReplica

_PARAMETERS = (
    "initial_value",
    "trainable",
    "name",
    "dtype",
    "aggregation",
    "synchronization",
)


def create(base: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns the variable that the creators in force make of these arguments.

    Inside a replica all replicas meet, and share the one variable that is created.
    """
    arguments = dict(zip(_PARAMETERS, args, strict=False), **kwargs)
    if len(arguments) < len(args) + len(kwargs):
        raise TypeError(
            f"Variable takes {', '.join(_PARAMETERS)}, each once. Received: "
            f"{len(args)} positional arguments and {sorted(kwargs)}."
        )
    frame = stack.frame()
    if not isinstance(frame, stack.Replica):
        return _chain(base, stack.creators())(**arguments)

    def create_once(_: Any, declared: Any) -> Any:
        first = declared.values[0] if isinstance(declared, PerReplica) else declared
        return _chain(base, first.creators)(**first.arguments)

    declaration = _Declaration(arguments, stack.creators())
    return frame.context.merge_call(create_once, args=(declaration,))


@contextlib.contextmanager
def variable_creator_scope(creator: stack.Creator) -> Iterator[None]:
    """Lets `creator(next_creator, **kwargs)` take part in making variables.

    It returns a variable: what `next_creator(**kwargs)` gives, or one of its own.
    Inside a strategy's scope it sees distributed variables; around the scope it sees
    each of their copies.

    >>> def frozen(next_creator, **kwargs):
    ...     return next_creator(**{**kwargs, "trainable": False})
    >>> with variable_creator_scope(frozen):
    ...     v = mirrax.Variable(1.0)
    >>> v.trainable
    False
    """
    if not callable(creator):
        raise TypeError(
            "A variable creator is called as creator(next_creator, **kwargs). "
            f"Received: {creator!r}."
        )
    with stack.creating(creator):
        yield


class _Declaration:
    """The variable that one replica asks for, on its way to the other replicas."""

    def __init__(
        self, arguments: dict[str, Any], creators: tuple[stack.Creator, ...]
    ) -> None:
        self.arguments = arguments
        self.creators = creators


def _chain(
    base: Callable[..., Any], creators: tuple[stack.Creator, ...]
) -> Callable[..., Any]:
    """Returns the creators as one function, the innermost called first."""
    chained = base
    for creator in creators:
        chained = _link(creator, chained)
    return chained


def _link(creator: stack.Creator, following: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **kwargs: creator(following, **kwargs)
