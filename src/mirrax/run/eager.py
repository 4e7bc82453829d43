"""Eager `run`: the replicas take turns, each up to the place where they next meet.

Each replica is a greenlet. The scheduler, in the greenlet that called `run`, lets
replica 0 run until it asks for a collective or ends, then replica 1, and so on; then it
answers all of them. Nothing runs at the same time, so the order of side effects is
fixed, and nobody can wait for ever.
"""

from __future__ import annotations

import abc
import contextvars
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import greenlet
import jax
from jax.extend import core as jax_core
from typing_extensions import override

from mirrax import jax_internals, trees
from mirrax.collectives.gather import gather
from mirrax.collectives.reduce import Collective, reduce, require_equal_shapes
from mirrax.context import stack
from mirrax.errors import ReplicaError
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.run import where
from mirrax.run.call import ReplicaCall
from mirrax.run.eager_gradients import differentiable_gather, differentiable_reduce
from mirrax.run.replica_context import ReplicaContext
from mirrax.trees import Tree
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of, regroup, select

ADVICE = (
    "Decorate the function given to `run` with `@mirrax.function`, or move the call "
    "out of the transformed function."
)

_CANCEL_ATTEMPTS = 100


def run_eager(call: ReplicaCall, advice: str = ADVICE) -> Tree:
    """Returns the merged results of a function, called once for each local replica.

    Args:
        call: What to do.
        advice: What to do instead of a collective in a place where replicas cannot
            meet.
    """
    topology = call.topology
    leaves, structure = trees.flatten((call.args, call.kwargs))
    columns = [parts_of(leaf, topology) for leaf in leaves]

    def body(index: int) -> Any:
        own = [parts[index] for parts in columns]
        own_args, own_kwargs = trees.unflatten(structure, own)
        return call.fn(*own_args, **own_kwargs)

    replicas = [
        _Replica(call, body, index, advice)
        for index in range(len(topology.local_devices))
    ]
    try:
        while True:
            for replica in replicas:
                replica.advance()
            if all(replica.is_done for replica in replicas):
                return regroup([replica.result for replica in replicas])
            requests = _matching_requests(replicas)
            answers = requests[0].answer_all(call, requests)
            for replica, answer in zip(replicas, answers, strict=True):
                replica.request = None
                replica.inbox = answer
    except BaseException:
        for replica in replicas:
            replica.cancel()
        raise


class _Cancelled(greenlet.GreenletExit):
    """Ends a replica whose sibling failed."""


class _Replica:
    """One replica: its greenlet, and what it waits for."""

    def __init__(
        self,
        call: ReplicaCall,
        body: Callable[[int], Any],
        index: int,
        advice: str,
    ) -> None:
        self.number = call.topology.local_replicas[index]
        self.advice = advice
        self.request: _Request | None = None
        self.inbox: Any = None
        self.result: Any = None
        self._call = call
        self._device = call.topology.local_devices[index]
        self._config: jax_internals.LocalConfig | None = None

        def enter(_: Any) -> Any:
            meeting = _EagerMeeting(self, call.collective)
            context = ReplicaContext(call.strategy, meeting)
            with stack.entered(stack.Replica(call.strategy, context, index)):
                return body(index)

        self._greenlet = greenlet.greenlet(enter)
        self._greenlet.gr_context = contextvars.copy_context()

    @property
    def is_done(self) -> bool:
        return self._greenlet.dead

    def advance(self) -> None:
        """Runs the replica until it asks for something or ends."""
        if self.is_done:
            return
        try:
            outcome = self._switch()
        except Exception as error:
            fn = self._call.fn
            name = getattr(fn, "__qualname__", repr(fn))
            count = self._call.topology.num_replicas
            error.add_note(
                f"[mirrax] raised in replica {self.number} of {count}, "
                f"running {name}, at {where.origin(error)}; the other replicas were "
                "cancelled"
            )
            raise
        if self._greenlet.dead:
            self.result = outcome
        else:
            self.request = outcome

    def cancel(self) -> None:
        """Ends the replica, letting its `finally` blocks run."""
        for _ in range(_CANCEL_ATTEMPTS):
            if self.is_done or not self._greenlet:
                return
            try:
                with jax.default_device(self._device):
                    self._greenlet.throw(_Cancelled)
            except Exception:
                # The first replica's error is the one that counts.
                continue

    def ask(self, request: _Request) -> Any:
        """Waits, inside the replica, for the answer to `request`."""
        parent = self._greenlet.parent
        assert parent is not None
        # The trace of a jax.grad that this replica is in belongs to the thread, and
        # must not be there for the others.
        with jax_core.take_current_trace():
            return parent.switch(request)

    def _switch(self) -> Any:
        """Switches to the replica, with the settings of JAX that are its own.

        They belong to the thread, not to the greenlet. Usually all that is a replica's
        own is its default device. If it holds others open across a meeting, all are
        exchanged for those of the caller while it waits.
        """
        self._greenlet.parent = greenlet.getcurrent()
        callers = jax_internals.get_local_config()
        if self._config is not None:
            jax_internals.set_local_config(self._config)
            return self._switch_and_restore(callers)
        with jax.default_device(self._device):
            before = jax_internals.config_fingerprint()
            try:
                return self._greenlet.switch(self.inbox)
            finally:
                if jax_internals.config_fingerprint() != before:
                    self._config = jax_internals.get_local_config()
                    jax_internals.set_local_config(callers)

    def _switch_and_restore(self, callers: jax_internals.LocalConfig) -> Any:
        try:
            return self._greenlet.switch(self.inbox)
        finally:
            self._config = jax_internals.get_local_config()
            jax_internals.set_local_config(callers)


def _matching_requests(replicas: Sequence[_Replica]) -> list[_Request]:
    waiting = [replica for replica in replicas if replica.request is not None]
    if len(waiting) < len(replicas):
        request = waiting[0].request
        assert request is not None
        ended = [replica.number for replica in replicas if replica.request is None]
        raise ReplicaError(
            "All replicas must make the same collective calls. Received: replica(s) "
            f"{[replica.number for replica in waiting]} wait in {request.kind} at "
            f"{request.where}, but replica(s) {ended} ended without calling it. Take "
            f"the {request.kind} out of the condition, or let every replica call it."
        )
    requests = [replica.request for replica in replicas if replica.request is not None]
    if any(request.signature != requests[0].signature for request in requests):
        calls = "; ".join(
            f"replica {replica.number} calls {request.kind} at {request.where}"
            for replica, request in zip(replicas, requests, strict=True)
        )
        raise ReplicaError(
            "All replicas must make the same collective calls, in the same order. "
            f"Received: {calls}."
        )
    return requests


@dataclasses.dataclass
class _Request(abc.ABC):
    """What a replica waits for; all replicas must wait for the same."""

    kind: ClassVar[str]
    where: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.where = where.caller()

    @property
    @abc.abstractmethod
    def signature(self) -> object:
        """What must be equal on all replicas."""

    @abc.abstractmethod
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        """Returns the answer for each replica."""


@dataclasses.dataclass
class _AllReduce(_Request):
    op: ReduceOp
    values: list[jax.Array]
    options: CommunicationOptions
    kind: ClassVar[str] = "all_reduce"

    @property
    @override
    def signature(self) -> object:
        return self.kind, self.op, len(self.values), self.options

    @override
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        columns = list(zip(*(request.values for request in requests), strict=True))
        for parts in columns:
            require_equal_shapes(parts)
        collective = dataclasses.replace(call.collective, options=self.options)
        values = [PerReplica(parts) for parts in columns]
        reduced = reduce(collective, self.op, values, axis=None)
        return _hand_out(reduced, len(requests))


@dataclasses.dataclass
class _AllGather(_Request):
    values: list[jax.Array]
    axis: int
    kind: ClassVar[str] = "all_gather"

    @property
    @override
    def signature(self) -> object:
        return self.kind, self.axis, len(self.values)

    @override
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        columns = zip(*(request.values for request in requests), strict=True)
        gathered = [
            gather(call.topology, PerReplica(parts), self.axis) for parts in columns
        ]
        return _hand_out(gathered, len(requests))


@dataclasses.dataclass
class _MergeCall(_Request):
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kind: ClassVar[str] = "merge_call"

    @property
    @override
    def signature(self) -> object:
        return self.kind, _identity(self.fn)

    @override
    def answer_all(self, call: ReplicaCall, requests: Sequence[Any]) -> list[Any]:
        args = tuple(regroup([request.args for request in requests]))
        kwargs = regroup([request.kwargs for request in requests])
        with stack.entered(stack.CrossReplica(call.strategy)):
            merged = self.fn(call.strategy, *args, **kwargs)
        return [select(merged, index) for index in range(len(requests))]


class _EagerMeeting:
    """A greenlet's way to the others."""

    def __init__(self, replica: _Replica, collective: Collective) -> None:
        self._replica = replica
        self._collective = collective

    @property
    def replica_id(self) -> int:
        return self._replica.number

    def merge_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._refuse_transformed("merge_call", jax.tree.leaves((args, kwargs)))
        return self._replica.ask(_MergeCall(fn, args, kwargs))

    def all_reduce(
        self, op: ReduceOp, values: list[jax.Array], options: CommunicationOptions
    ) -> list[jax.Array]:
        def ask(arrays: list[jax.Array]) -> list[jax.Array]:
            self._refuse_transformed("all_reduce", arrays)
            answer: list[jax.Array] = self._replica.ask(_AllReduce(op, arrays, options))
            return answer

        if any(isinstance(value, jax.core.Tracer) for value in values):
            return differentiable_reduce(ask, values)
        return ask(values)

    def all_gather(self, values: list[jax.Array], axis: int) -> list[jax.Array]:
        def ask(arrays: list[jax.Array], along: int) -> list[jax.Array]:
            self._refuse_transformed("all_gather", arrays)
            answer: list[jax.Array] = self._replica.ask(_AllGather(arrays, along))
            return answer

        def add_up(arrays: list[jax.Array]) -> list[jax.Array]:
            return self.all_reduce(ReduceOp.SUM, arrays, self._collective.options)

        if any(isinstance(value, jax.core.Tracer) for value in values):
            return differentiable_gather(ask, add_up, values, axis, self.replica_id)
        return ask(values, axis)

    def _refuse_transformed(self, kind: str, values: Sequence[Any]) -> None:
        if jax_internals.is_staging() or any(
            isinstance(value, jax.core.Tracer) for value in values
        ):
            raise RuntimeError(
                f"`{kind}` is called inside a JAX transformation (jit, scan, cond, "
                "vmap, ...) in an eager `strategy.run`, where replicas cannot meet. "
                f"Received: the call at {where.caller()}. {self._replica.advice}"
            )


def _hand_out(replicated: Sequence[jax.Array], count: int) -> list[list[jax.Array]]:
    columns = [jax_internals.shards(array) for array in replicated]
    return [
        [jax_internals.uncommitted(column[index]) for column in columns]
        for index in range(count)
    ]


def _identity(fn: Callable[..., Any]) -> Any:
    """Returns what two functions that are defined in the same place have in common."""
    if isinstance(fn, functools.partial):
        return functools.partial, _identity(fn.func)
    return getattr(fn, "__code__", fn)
