"""`ReplicaContext`, and the communicators of a replica with the others."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from mirrax import trees, user_frames
from mirrax.collectives.reduce import Collective, reduce_one, require_axis
from mirrax.context import guards, stack
from mirrax.devices.topology import Topology
from mirrax.options import CommunicationOptions, ReduceOp, parse_reduce_op
from mirrax.trees import Tree
from mirrax.values.array_like import as_combinable, is_array_like, without_weak_type
from mirrax.values.layouts import Parts
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import select

_logger = logging.getLogger(__name__)

_uneven_means: set[str] = set()
"""Where replicas with different numbers of rows were averaged, as file:line."""


# Not frozen: such records take three times as long to make, in every `run`.
@dataclasses.dataclass(eq=False, slots=True, weakref_slot=True)
class ReplicaCall:
    """A function to be called on every replica.

    Args:
        args: Positional arguments; distributed values among them are divided.
        traced_rows: The number of rows of each replica, if it is traced for different
            numbers.
    """

    strategy: Any
    collective: Collective
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    traced_rows: Sequence[int] = ()

    @property
    def topology(self) -> Topology:
        return self.collective.topology

    @property
    def uneven_rows(self) -> Sequence[int]:
        """The number of rows of each replica, if it is known to differ."""
        leaves = trees.leaves((self.args, self.kwargs))
        layouts = [leaf.layout for leaf in leaves if isinstance(leaf, PerReplica)]
        parts = [layout for layout in layouts if isinstance(layout, Parts)]
        return self.traced_rows or differing_rows(
            [shape for shape, _ in layout.shapes]
            if layout.shapes
            else [np.shape(part) for part in layout.parts if is_array_like(part)]
            for layout in parts
        )


def differing_rows(columns: Iterable[Sequence[tuple[int, ...]]]) -> Sequence[int]:
    """Returns the first numbers of rows that differ, given shapes on all replicas."""
    rows = ([shape[0] for shape in shapes if shape] for shapes in columns)
    return next((each for each in rows if len(set(each)) > 1), ())


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
    """The communicator of a single replica."""

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


class ReplicaContext:
    """One replica's view of a `run`; `get_replica_context()` gives it.

    >>> import mirrax
    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> strategy.run(lambda: mirrax.get_replica_context().all_reduce("SUM", 2.0))
    Array(2., dtype=float32...)
    """

    def __init__(
        self, strategy: Any, communicator: Communicator, is_lasting: bool = False
    ) -> None:
        self._strategy = strategy
        self._communicator = communicator
        # Whether it is the default context, which is valid outside of every `run`.
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
        """Waits for all replicas; returns what `merge_fn` made of their values.

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

        Differentiable: the gradient of a sum is the sum of the gradients. "MEAN" gives
        every replica the same weight, however many rows it has.
        """
        self._require_current("all_reduce")
        op = parse_reduce_op(reduce_op)
        if op is ReduceOp.MEAN:
            _warn_of_uneven_mean()
        leaves, structure = trees.flatten(value)
        if options is not None and not isinstance(options, CommunicationOptions):
            raise TypeError(
                "`options` of all_reduce is a `CommunicationOptions`. Received: "
                f"{options!r}. Leave it out, or write CommunicationOptions(...)."
            )
        options = options or self._strategy.collective.options
        reduced = self._communicator.all_reduce(
            op, as_combinable(leaves), options, structure
        )
        return trees.unflatten(structure, reduced)

    def all_gather(
        self, value: Tree, axis: int, options: CommunicationOptions | None = None
    ) -> Tree:
        """Returns `value` of all replicas joined along `axis`, in replica order."""
        self._require_current("all_gather")
        leaves, structure = trees.flatten(value)
        arrays = as_combinable(leaves)
        for array in arrays:
            require_axis(axis, array.ndim, "all_gather")
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


def _warn_of_uneven_mean() -> None:
    """Warns, once per call site, that a mean over unequal parts is unweighted."""
    frame = stack.frame()
    call = frame.call if isinstance(frame, stack.Replica) else None
    rows = [] if call is None else call.uneven_rows
    place = user_frames.caller() if rows else ""
    if not rows or place in _uneven_means:
        return
    _uneven_means.add(place)
    _logger.warning(
        '`all_reduce("MEAN")` at %s gives every replica the same weight, but they have '
        "different numbers of rows: %s. For the mean over all rows, return "
        "`mirrax.nn.compute_average_loss(losses)` from the loss function and add up: "
        '`all_reduce("SUM")`.',
        place,
        rows,
    )
