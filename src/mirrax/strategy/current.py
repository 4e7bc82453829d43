"""Functions that return or set the current strategy and context."""

from __future__ import annotations

from mirrax.context import guards, stack
from mirrax.run.replica_context import ReplicaContext
from mirrax.strategy.default_strategy import DefaultStrategy, default_strategy
from mirrax.strategy.strategy import Strategy


def get_strategy() -> Strategy:
    """Returns the current strategy; outside every scope, the default one.

    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> with strategy.scope():
    ...     get_strategy() is strategy
    True
    """
    frame = stack.frame()
    return default_strategy() if frame is None else frame.strategy


def has_strategy() -> bool:
    """Returns whether the current strategy is not the default one.

    >>> has_strategy()
    False
    """
    frame = stack.frame()
    return frame is not None and not isinstance(frame.strategy, DefaultStrategy)


def in_cross_replica_context() -> bool:
    """Returns whether this code sees all replicas.

    It does in a scope, in a merge function, and in functions that `extended.update`
    calls.

    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> with strategy.scope():
    ...     in_cross_replica_context(), strategy.run(in_cross_replica_context)
    (True, False)
    """
    return isinstance(stack.frame(), stack.CrossReplica | stack.Update)


def get_replica_context() -> ReplicaContext | None:
    """Returns the context of this replica; None in cross-replica context.

    Outside every strategy there is one replica, and this returns its context.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    >>> strategy.run(lambda: get_replica_context().replica_id_in_sync_group).values
    (0, 1)
    """
    frame = stack.frame()
    if frame is None:
        return default_strategy().replica_context
    return frame.context if isinstance(frame, stack.Replica) else None


def experimental_set_strategy(strategy: Strategy | None) -> None:
    """Sets the strategy for the rest of this thread; None unsets it.

    >>> experimental_set_strategy(mirrax.OneDeviceStrategy("CPU:0"))
    >>> has_strategy()
    True
    >>> experimental_set_strategy(None)
    """
    if stack.frame() is not stack.installed() or stack.overlay() is not None:
        raise RuntimeError(
            "`experimental_set_strategy` must be called outside every scope. You are "
            f"in {guards.describe()}. Leave the scope first, or use only the scope."
        )
    if strategy is None:
        stack.install(None, ())
    elif not isinstance(strategy, Strategy):
        raise TypeError(
            "`experimental_set_strategy` takes a strategy or None. Received: "
            f"{strategy!r}. Give it a strategy, such as `MirroredStrategy()`."
        )
    else:
        stack.install(stack.CrossReplica(strategy), (strategy._creator,))
