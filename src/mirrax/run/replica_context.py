"""What a replica sees of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrax import trees
from mirrax.context import guards, stack
from mirrax.options import CommunicationOptions, ReduceOp, parse_reduce_op
from mirrax.run.meeting import Meeting, require_gatherable
from mirrax.trees import Tree
from mirrax.values.array_like import as_arrays


class ReplicaContext:
    """One replica's view of a `run`; `get_replica_context()` gives it.

    >>> import mirrax
    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> strategy.run(lambda: mirrax.get_replica_context().all_reduce("SUM", 2.0))
    Array(2., dtype=float32...)
    """

    def __init__(
        self, strategy: Any, meeting: Meeting, is_lasting: bool = False
    ) -> None:
        self._strategy = strategy
        self._meeting = meeting
        # Whether it holds outside of every strategy, and not for one `run`.
        self._is_lasting = is_lasting

    @property
    def strategy(self) -> Any:
        """The strategy that runs this replica."""
        return self._strategy

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas, over which gradients are combined."""
        return int(self._strategy.num_replicas_in_sync)

    @property
    def replica_id_in_sync_group(self) -> Any:
        """This replica's number: an int, or a traced scalar in compiled code."""
        return self._meeting.replica_id

    @property
    def devices(self) -> tuple[str, ...]:
        """The name of the device that runs this replica, in eager code."""
        number = self.replica_id_in_sync_group
        if not isinstance(number, int):
            raise RuntimeError(
                "`ReplicaContext.devices` is for eager code: one program is compiled "
                "for all replicas, and belongs to no device of its own. Use "
                "`strategy.extended.worker_devices`, the devices of all replicas."
            )
        return (self._strategy.topology.names[number],)

    def merge_call(
        self,
        merge_fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Lets all replicas meet; returns what `merge_fn` made of their values.

        `merge_fn(strategy, *args, **kwargs)` is called once, in cross-replica context,
        with a `PerReplica` for each value that differs. Each replica gets its own part
        of what it returns.
        """
        self._require_current("merge_call")
        return self._meeting.merge_call(merge_fn, tuple(args), dict(kwargs or {}))

    def all_reduce(
        self,
        reduce_op: ReduceOp | str,
        value: Tree,
        options: CommunicationOptions | None = None,
    ) -> Tree:
        """Returns `value`, a structure of arrays, combined over all replicas.

        Differentiable: the gradient of a sum is the sum of the gradients.
        """
        self._require_current("all_reduce")
        op = parse_reduce_op(reduce_op)
        leaves, structure = trees.flatten(value)
        if options is not None and not isinstance(options, CommunicationOptions):
            raise TypeError(
                "`options` of all_reduce is a `CommunicationOptions`. Received: "
                f"{options!r}. Leave it out, or write CommunicationOptions(...)."
            )
        options = options or self._strategy.collective.options
        reduced = self._meeting.all_reduce(op, as_arrays(leaves), options, structure)
        return trees.unflatten(structure, reduced)

    def all_gather(
        self, value: Tree, axis: int, options: CommunicationOptions | None = None
    ) -> Tree:
        """Returns `value` of all replicas joined along `axis`, in replica order."""
        self._require_current("all_gather")
        leaves, structure = trees.flatten(value)
        arrays = as_arrays(leaves)
        require_gatherable(arrays, axis)
        gathered = self._meeting.all_gather(arrays, axis, structure)
        return trees.unflatten(structure, gathered)

    def _require_current(self, what: str) -> None:
        frame = stack.frame()
        if frame is None and self._is_lasting:
            return
        guards.require_replica(f"`ReplicaContext.{what}`")
        if frame is None or frame.context is not self:  # type: ignore[union-attr]
            raise RuntimeError(
                f"`ReplicaContext.{what}` is called on the context of another replica, "
                "or of a `run` that is over. Ask for it where you use it: "
                f"`mirrax.get_replica_context().{what}(...)`."
            )
