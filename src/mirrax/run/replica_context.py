"""`ReplicaContext`, and the communicators through which replicas meet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax

from mirrax import trees
from mirrax.collectives.reduce import Collective, reduce_one, require_axis
from mirrax.context import guards, stack
from mirrax.devices.topology import Topology
from mirrax.options import CommunicationOptions, ReduceOp, parse_reduce_op
from mirrax.trees import Tree
from mirrax.values.array_like import as_arrays, without_weak_type
from mirrax.values.regroup import select


@dataclasses.dataclass(frozen=True)
class ReplicaCall:
    """A function to be called on every replica.

    Args:
        strategy: The strategy that runs it.
        collective: Its devices, and how they communicate.
        fn: The function.
        args: Positional arguments; distributed values among them are divided.
        kwargs: Keyword arguments, likewise.
        is_deciding: Whether replicas may go different ways, because the function
            decides in Python on values of tensors.
    """

    strategy: Any
    collective: Collective
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_deciding: bool = False

    @property
    def topology(self) -> Topology:
        return self.collective.topology


class Communicator(Protocol):
    """One replica's connection to the others, in whichever engine runs it."""

    @property
    def replica_id(self) -> Any:
        """This replica's number among all: an int, or a traced scalar."""

    def merge_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Calls `fn` once for all replicas with what each brought."""

    def all_reduce(
        self,
        op: ReduceOp,
        values: list[jax.Array],
        options: CommunicationOptions,
        structure: Any = None,
    ) -> list[jax.Array]:
        """Returns the values, which are nested in this way, combined over replicas."""

    def all_gather(
        self, values: list[jax.Array], axis: int, structure: Any = None
    ) -> list[jax.Array]:
        """Returns the values of all replicas joined along `axis`."""


class SingleReplica:
    """The meeting of a single replica: there is nobody to wait for."""

    replica_id = 0

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def merge_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with stack.entered(stack.CrossReplica(self._strategy)):
            return select(fn(self._strategy, *args, **kwargs), 0)

    def all_reduce(
        self,
        op: ReduceOp,
        values: list[jax.Array],
        options: CommunicationOptions,
        structure: Any = None,
    ) -> list[jax.Array]:
        return [without_weak_type(reduce_one(op, value, axis=None)) for value in values]

    def all_gather(
        self, values: list[jax.Array], axis: int, structure: Any = None
    ) -> list[jax.Array]:
        return values


def require_gatherable(values: Sequence[jax.Array], axis: int) -> None:
    """Raises unless each value has the dimension `axis`."""
    for value in values:
        require_axis(axis, value.ndim, "all_gather")


class ReplicaContext:
    """One replica's view of a `run`; `get_replica_context()` gives it.

    >>> import mirrax
    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> strategy.run(lambda: mirrax.get_replica_context().all_reduce("SUM", 2.0))
    Array(2., dtype=float32...)
    """

    def __init__(
        self, strategy: Any, meeting: Communicator, is_lasting: bool = False
    ) -> None:
        self._strategy = strategy
        self._communicator = meeting
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
        return self._communicator.replica_id

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
        return self._communicator.merge_call(merge_fn, tuple(args), dict(kwargs or {}))

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
        reduced = self._communicator.all_reduce(
            op, as_arrays(leaves), options, structure
        )
        return trees.unflatten(structure, reduced)

    def all_gather(
        self, value: Tree, axis: int, options: CommunicationOptions | None = None
    ) -> Tree:
        """Returns `value` of all replicas joined along `axis`, in replica order."""
        self._require_current("all_gather")
        leaves, structure = trees.flatten(value)
        arrays = as_arrays(leaves)
        require_gatherable(arrays, axis)
        gathered = self._communicator.all_gather(arrays, axis, structure)
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
