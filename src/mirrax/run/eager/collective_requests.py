"""What the replicas of an eager `run` ask for at a collective, and the answers."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, ClassVar

import jax
from typing_extensions import override

from mirrax import trees, user_frames
from mirrax._jax.arrays import shards, uncommitted
from mirrax.collectives import host_all_reduce, worker_exchange
from mirrax.collectives.gather import gather
from mirrax.collectives.reduce import reduce
from mirrax.context import stack
from mirrax.errors import ReplicaError
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.run.replica_context import ReplicaCall
from mirrax.values.layouts import Parts
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import regroup, select


@dataclasses.dataclass
class Request(abc.ABC):
    """What a replica waits for; all replicas must wait for the same."""

    kind: ClassVar[str]
    frame: FrameType | None = dataclasses.field(init=False, default=None)

    @property
    def where(self) -> str:
        """The call site; only known while the replica waits there."""
        return user_frames.of_frame(self.frame)

    @property
    @abc.abstractmethod
    def signature(self) -> object:
        """What must be equal on all replicas."""

    @abc.abstractmethod
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        """Returns the answer for each replica."""


@dataclasses.dataclass
class AllReduce(Request):
    """Arrays to be combined over the replicas."""

    op: ReduceOp
    values: list[jax.Array]
    options: CommunicationOptions
    structure: Any
    kind: ClassVar[str] = "all_reduce"

    @property
    @override
    def signature(self) -> object:
        return self.kind, self.op, _Nesting(self.structure), self.options

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.op.name} of {self.structure}"

    @override
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        collective = call.collective
        if self.options is not collective.options:
            collective = dataclasses.replace(collective, options=self.options)
        rows = [request.values for request in requests]
        answers = host_all_reduce.all_reduce(collective, self.op, rows)
        if answers is not None:
            return answers
        values = _columns(call, requests, f"all_reduce {self.op.name}")
        reduced = reduce(collective, self.op, values, axis=None)
        return _split_results(reduced, len(requests))


@dataclasses.dataclass
class AllGather(Request):
    """Arrays to be joined along an axis."""

    values: list[jax.Array]
    axis: int
    structure: Any
    kind: ClassVar[str] = "all_gather"

    @property
    @override
    def signature(self) -> object:
        return self.kind, self.axis, _Nesting(self.structure)

    @override
    def __str__(self) -> str:
        return f"{self.kind} along axis {self.axis} of {self.structure}"

    @override
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        values = _columns(call, requests, f"all_gather along axis {self.axis}")
        gathered = [gather(call.topology, value, self.axis) for value in values]
        return _split_results(gathered, len(requests))


@dataclasses.dataclass
class MergeCall(Request):
    """A function to be called once, with the values of all replicas."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kind: ClassVar[str] = "merge_call"

    @property
    @override
    def signature(self) -> object:
        return self.kind, _definition(self.fn)

    @override
    def __str__(self) -> str:
        return f"{self.kind} of {getattr(self.fn, '__qualname__', self.fn)}"

    @override
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        topology = call.topology
        args = tuple(regroup([request.args for request in requests], topology))
        kwargs = regroup([request.kwargs for request in requests], topology)
        with stack.entered(stack.CrossReplica(call.strategy)):
            merged = self.fn(call.strategy, *args, **kwargs)
        return [select(merged, index) for index in range(len(requests))]


class _Nesting:
    """How values are nested: equal if they are found in the same places."""

    __slots__ = ("_structure",)

    def __init__(self, structure: Any) -> None:
        self._structure = structure

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, _Nesting)
        # Nodes of the user's own may hold what cannot be compared.
        with contextlib.suppress(Exception):
            if self._structure == other._structure:
                return True
        return self._places() == other._places()

    __hash__ = None  # type: ignore[assignment]

    def _places(self) -> list[str]:
        count = 0 if self._structure is None else self._structure.num_leaves
        try:
            tree = trees.unflatten(self._structure, list(range(count)))
            found = jax.tree_util.tree_leaves_with_path(tree, is_leaf=trees.is_leaf)
        except Exception:
            # Nodes of the user's own may take arrays only.
            return [str(index) for index in range(count)]
        return [jax.tree_util.keystr(path) for path, _ in found]


def matching(asked: Mapping[int, Request | None]) -> list[Request]:
    """Returns what all replicas ask for; raises if it is not the same.

    Args:
        asked: What each replica, by its number, waits for; None if it has ended.
    """
    requests = [request for request in asked.values() if request is not None]
    if len(requests) < len(asked):
        waiting = [number for number, request in asked.items() if request is not None]
        ended = [number for number, request in asked.items() if request is None]
        first = requests[0]
        raise ReplicaError(
            "All replicas must make the same collective calls. Received: replica(s) "
            f"{waiting} wait in {first.kind} at {first.where}, but replica(s) {ended} "
            f"ended without calling it. Take the {first.kind} out of the condition, or "
            "let every replica call it."
        )
    if any(request.signature != requests[0].signature for request in requests):
        calls = "; ".join(
            f"replica {number} calls {request} at {request.where}"
            for number, request in zip(asked, requests, strict=True)
        )
        raise ReplicaError(
            "All replicas must make the same collective calls, in the same order, of "
            f"values nested alike. Received: {calls}. Take the calls out of conditions "
            "that differ between replicas."
        )
    return requests


def add_location(error: Exception, requests: Sequence[Request]) -> None:
    """Adds the call sites of a collective to an error."""
    places = dict.fromkeys(request.where for request in requests)
    error.add_note(
        f"[mirrax] raised in {requests[0].kind}, called at {' and at '.join(places)}"
    )


def _columns(call: ReplicaCall, requests: Sequence[Any], what: str) -> list[PerReplica]:
    rows = [request.values for request in requests]
    columns = [Parts(parts) for parts in zip(*rows, strict=True)]
    layouts = worker_exchange.with_shapes(call.topology, columns, what)
    return [PerReplica(layout) for layout in layouts]


def _split_results(
    replicated: Sequence[jax.Array], count: int
) -> list[list[jax.Array]]:
    columns = [shards(array) for array in replicated]
    return [
        [uncommitted(column[index]) for column in columns] for index in range(count)
    ]


def _definition(fn: Callable[..., Any]) -> Any:
    """Returns a key that functions with the same definition share."""
    if isinstance(fn, functools.partial):
        return functools.partial, _definition(fn.func)
    return getattr(fn, "__code__", fn)
