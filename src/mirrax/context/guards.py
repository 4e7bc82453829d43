"""Checks of where we are, with errors that say where we should be."""

from __future__ import annotations

from mirrax.context import stack


class MustDrive(BaseException):
    """A traced function did what only Python can do, such as iterating a dataset.

    No `Exception`, so that what the user catches is not this.
    """


class NeedsPython(MustDrive):
    """A traced function did what can be done only while values are known.

    Args:
        what: What it did, after the name of the function: "assigns ...".
        advice: What to do to keep it one program.
    """

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice


class NeedsVariable(MustDrive):
    """A traced function makes a variable of a value that is not known yet."""


def may_be_driven() -> bool:
    """Returns whether Python may run the function that is traced here instead."""
    return bool(stack.decides())


def require_cross_replica(what: str) -> None:
    """Raises unless we are outside `run`, where `what` makes sense."""
    if isinstance(stack.frame(), stack.Replica):
        raise RuntimeError(
            f"{what} works on all replicas at once, so it belongs in cross-replica "
            "context: outside `strategy.run` or inside a merge function. You are in "
            "replica context: inside a function called by `strategy.run`. Move the "
            "call out of that function, or use `get_replica_context().merge_call`."
        )


def require_same_strategy(what: str, strategy: object) -> None:
    """Raises inside the scope of another strategy than `strategy`."""
    frame = stack.frame()
    if frame is not None and frame.strategy is not strategy:
        raise RuntimeError(
            f"{what} is called inside the scope of another strategy. Received: "
            f"{strategy!r} inside {frame.strategy!r}. Use one strategy at a time: "
            "leave the outer scope first."
        )


def require_replica(what: str) -> None:
    """Raises unless we are inside `run`, where `what` makes sense."""
    if not isinstance(stack.frame(), stack.Replica):
        raise RuntimeError(
            f"{what} speaks for one replica, so it belongs in replica context: inside "
            f"a function called by `strategy.run`. You are in {describe()}. Call it "
            "from that function."
        )


def describe() -> str:
    """Returns words for where we are."""
    match stack.frame():
        case None:
            return "no strategy's scope"
        case stack.Replica():
            return "replica context (inside `strategy.run`)"
        case stack.Update():
            return "update context (inside `extended.update`)"
        case _:
            return "cross-replica context (in a scope or a merge function)"
