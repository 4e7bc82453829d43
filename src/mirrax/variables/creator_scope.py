"""Creates variables through the creators in force, also inside a replica."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from mirrax.context import stack
from mirrax.values.per_replica import PerReplica

_PARAMETERS = (
    *("initial_value", "trainable", "name", "dtype"),
    *("aggregation", "synchronization"),
)


def create(base: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns the variable that the creators in force make of these arguments.

    The innermost creator is called first. Inside `run`, the replicas synchronize and
    share one variable.
    """
    arguments = dict(zip(_PARAMETERS, args, strict=False), **kwargs)
    if len(arguments) < len(args) + len(kwargs):
        raise TypeError(
            f"Variable takes {', '.join(_PARAMETERS)}, each once. Received: "
            f"{len(args)} positional arguments and {sorted(kwargs)}."
        )
    chained = base
    for creator in stack.creators():
        chained = functools.partial(creator, chained)
    make = functools.partial(chained, **arguments)
    frame = stack.frame()
    if not isinstance(frame, stack.Replica):
        return make()

    def make_once(_: Any, requested: Any) -> Any:
        first = requested.values[0] if isinstance(requested, PerReplica) else requested
        return first()

    return frame.context.merge_call(make_once, args=(make,))


@contextlib.contextmanager
def variable_creator_scope(creator: stack.Creator) -> Iterator[None]:
    """Calls `creator(next_creator, **kwargs)` for each variable created in the scope.

    It returns `next_creator(**kwargs)` or another variable. Inside a strategy's scope
    it is called for distributed variables; around the scope, for each of their copies.

    >>> def frozen(next_creator, **kwargs):
    ...     return next_creator(**{**kwargs, "trainable": False})
    >>> with variable_creator_scope(frozen):
    ...     v = mirrax.Variable(1.0)
    >>> v.trainable
    False
    """
    if not callable(creator):
        raise TypeError(
            "A variable creator must be callable as creator(next_creator, **kwargs). "
            f"Received: {creator!r}."
        )
    with stack.creating(creator):
        yield
