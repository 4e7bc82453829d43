"""Checks of the current context, with errors that name the right one."""

from __future__ import annotations

from mirrax.context import stack


class NotTraceable(BaseException):
    """A function cannot be traced, for example because it iterates a dataset.

    Not an `Exception`, so that user code does not catch it.
    """


def require_cross_replica(what: str) -> None:
    """Raises inside `run`, where `what` cannot be called."""
    if isinstance(stack.frame(), stack.Replica):
        raise RuntimeError(
            f"Method requires being in cross-replica context: {what} works on all "
            "replicas at once, so call it outside `strategy.run` or inside a merge "
            "function. You are in replica context: inside a function called by "
            "`strategy.run`. Move the call out of that function, or use "
            "`get_replica_context().merge_call`."
        )


def require_same_strategy(what: str, strategy: object) -> None:
    """Raises inside the scope of a strategy other than `strategy`."""
    frame = stack.frame()
    if frame is not None and frame.strategy is not strategy:
        raise RuntimeError(
            f"Mixing different tf.distribute.Strategy objects: {what} was called "
            f"inside the scope of another strategy. Received: {strategy!r} inside "
            f"{frame.strategy!r}. Use one strategy at a time: leave the outer scope "
            "first."
        )


def require_scope(what: str, strategy: object) -> None:
    """Raises outside the scope of `strategy`."""
    frame = stack.frame()
    if frame is None or frame.strategy is not strategy:
        raise RuntimeError(
            f"{what} must be called inside the scope of {strategy!r}. Received: a call "
            f"in {describe() if frame is None else repr(frame.strategy)}. Write it in "
            "`with strategy.scope()`."
        )


def require_replica(what: str) -> None:
    """Raises outside `run`, where `what` cannot be called."""
    if not isinstance(stack.frame(), stack.Replica):
        raise RuntimeError(
            f"{what} acts for one replica, so call it in replica context: inside a "
            f"function called by `strategy.run`. You are in {describe()}."
        )


def describe() -> str:
    """Returns the name of the current context, for errors."""
    match stack.frame():
        case None:
            return "no strategy's scope"
        case stack.Replica():
            return "replica context (inside `strategy.run`)"
        case stack.Update():
            return "update context (inside `extended.update`)"
        case _:
            return "cross-replica context (in a scope or a merge function)"
