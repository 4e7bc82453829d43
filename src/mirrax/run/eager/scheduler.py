"""Eager `run`: the replicas take turns, each up to its next collective.

Each replica is a greenlet. The scheduler, in the greenlet that called `run`, lets
replica 0 run until it asks for a collective or ends, then replica 1, and so on; then it
answers all of them. Nothing runs at the same time, so the order of side effects is
fixed, and no replica can wait forever.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax import trees, user_frames
from mirrax._jax.config import (
    LocalConfig,
    config_fingerprint,
    get_local_config,
    set_local_config,
)
from mirrax._jax.tape_trace import is_differentiating_only, is_recorded
from mirrax._jax.traces import (
    current_trace,
    evaluated,
    is_eager,
    is_in_callback,
    is_staging,
    set_current_trace,
)
from mirrax.collectives.reduce import Collective
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.context import stack
from mirrax.context.stack import suspend_library_state
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.run.eager.collective_requests import (
    AllGather,
    AllReduce,
    MergeCall,
    Request,
    add_location,
    matching,
)
from mirrax.run.eager.differentiable_collectives import (
    differentiable_gather,
    differentiable_reduce,
)
from mirrax.run.eager.greenlets import Failed, Finished, TaskGreenlet, acquire, release
from mirrax.run.replica_context import ReplicaCall, ReplicaContext
from mirrax.trees import Tree
from mirrax.values.layouts import replicate
from mirrax.values.regroup import is_mirrored_array, parts_of, regroup
from mirrax.variables import foreign_libraries, foreign_variable

ADVICE = (
    "Decorate the function given to `run` with `@mirrax.function`, or move the call "
    "out of the transformed function."
)

_ADVICE_INSIDE_TRANSFORMATION = (
    "Put the transformation around `strategy.run` into a `@mirrax.function`, which can "
    "take the place of `jax.jit`."
)

_CANCEL_ATTEMPTS = 100


def run_eager(call: ReplicaCall, advice: str = ADVICE) -> Tree:
    """Returns the merged results of a function, called once for each local replica.

    Args:
        advice: The fix for a collective inside a JAX transformation, for errors.
    """
    if not is_eager():
        advice = _ADVICE_INSIDE_TRANSFORMATION
    with foreign_libraries.routed():
        return _run_with_whole_arguments(call, advice)


def _run_with_whole_arguments(call: ReplicaCall, advice: str) -> Tree:
    """Runs a call with its sharded arguments gathered, and shards the results again."""
    topology = call.topology
    sharded = {
        (leaf.shape, leaf.dtype): layout
        for leaf in trees.leaves((call.args, call.kwargs))
        if (layout := ShardLayout.of_array(leaf, topology)) is not None
    }
    if not sharded:
        return _run_in_turns(call, advice)

    def gather(leaf: Any) -> Any:
        layout = ShardLayout.of_array(leaf, topology)
        if layout is None:
            return leaf
        return replicate(layout.load(leaf, topology, "gather arguments"), topology)

    def shard(leaf: Any) -> Any:
        if not is_mirrored_array(leaf, topology):
            return leaf
        layout = sharded.get((leaf.shape, leaf.dtype))
        return leaf if layout is None else layout.store(leaf, topology)

    args, kwargs = trees.map_leaves(gather, (call.args, call.kwargs))
    call = dataclasses.replace(call, args=args, kwargs=kwargs)
    return trees.map_leaves(shard, _run_in_turns(call, advice))


def _run_in_turns(call: ReplicaCall, advice: str) -> Tree:
    topology = call.topology
    foreign_libraries.check_arguments((call.args, call.kwargs))
    leaves, structure = trees.flatten((call.args, call.kwargs))
    columns = [parts_of(leaf, topology) for leaf in leaves]

    def body(index: int) -> Any:
        own = [parts[index] for parts in columns]
        own_args, own_kwargs = trees.unflatten(structure, own)
        return call.fn(*own_args, **own_kwargs)

    settings = get_local_config()
    replicas = [
        _Replica(call, body, index, advice, settings)
        for index in range(len(topology.local_devices))
    ]
    try:
        while True:
            for replica in replicas:
                replica.advance()
            if all(replica.is_done for replica in replicas):
                return regroup([replica.result for replica in replicas], topology)
            requests = matching({r.number: r.request for r in replicas})
            try:
                with evaluated():
                    answers = requests[0].answer_all(call, requests)
            except Exception as error:
                add_location(error, requests)
                raise
            for replica, answer in zip(replicas, answers, strict=True):
                replica.request = None
                replica.inbox = answer
    except BaseException:
        for replica in replicas:
            replica.cancel()
        raise


class _Replica:
    """One replica: its greenlet, and what it waits for."""

    def __init__(
        self,
        call: ReplicaCall,
        body: Callable[[int], Any],
        index: int,
        advice: str,
        callers_config: LocalConfig,
    ) -> None:
        topology = call.topology
        self.number = topology.local_replicas[index]
        self.advice = advice
        self.request: Request | None = None
        self.inbox: Any = None
        self.result: Any = None
        self.is_done = False
        self._call = call
        self._body = body
        self._index = index
        # Made once, and entered whenever the replica has its turn.
        self._place = stack.separate_traces(self.number, topology.num_replicas)
        # Whether a derivative would need collectives after the replicas have ended.
        self.is_inside_derivative = not is_eager()
        # A replica that waits for others leaves no trace under way.
        self._trace = set_current_trace(current_trace())
        self._device = jax.default_device(topology.local_devices[index])
        self._task: TaskGreenlet | None = None
        self._callers_config = callers_config
        self._config: LocalConfig | None = None

    def advance(self) -> None:
        """Runs the replica until it asks for something or ends."""
        match self._switch(self._resume):
            case Finished(result=result):
                self.result = result
                self._end()
            case Failed(error=error):
                self._end()
                raise self._explained(error)
            case request:
                self.request = request

    def cancel(self) -> None:
        """Ends the replica, letting its `finally` blocks run."""
        for _ in range(_CANCEL_ATTEMPTS):
            if self.is_done or self._task is None:
                return
            if isinstance(self._switch(self._task.cancel), Finished | Failed):
                self._end()

    def ask(self, request: Request) -> Any:
        """Waits, inside the replica, for the answer to `request`."""
        assert self._task is not None
        if is_in_callback():
            raise RuntimeError(
                "A callback cannot call a collective, because the other replicas wait "
                f"for the program that runs it. Received: {request.kind} at "
                f"{user_frames.caller()}, in a callback. Return the value from the "
                "callback, and go on outside of it."
            )
        # A jax.grad around this call, and the state of other libraries, belong to the
        # thread. They are suspended while other replicas run.
        request.frame = sys._getframe()
        try:
            with evaluated(), suspend_library_state():
                return self._task.pause(request)
        finally:
            # Breaks the reference cycle, which would keep the user's arrays alive.
            request.frame = None

    def _resume(self) -> Any:
        if self._task is not None:
            return self._task.resume(self.inbox)
        self._task = acquire()
        return self._task.start(self._enter)

    def _enter(self) -> Any:
        strategy = self._call.strategy
        context = ReplicaContext(
            strategy, _EagerCommunicator(self, self._call.collective)
        )
        frame = stack.Replica(strategy, context, self._index, call=self._call)
        with stack.entered(frame):
            result = self._body(self._index)
            foreign_variable.assign_pending(frame)
            return result

    def _end(self) -> None:
        self.is_done = True
        if self._task is not None:
            release(self._task)

    def _explained(self, error: BaseException) -> BaseException:
        fn = self._call.fn
        error.add_note(
            f"[mirrax] raised in replica {self.number} of "
            f"{self._call.topology.num_replicas}, running "
            f"{getattr(fn, '__qualname__', repr(fn))}, at "
            f"{user_frames.origin(error)}; the other replicas were cancelled"
        )
        return error

    def _switch(self, switch: Callable[[], Any]) -> Any:
        """Switches to the replica, with its own JAX settings.

        Settings belong to the thread, not to the greenlet. Usually a replica changes
        only its default device. If it holds others open across a collective, all of
        them are swapped with the caller's while it waits.
        """
        if self._config is not None:
            set_local_config(self._config)
            try:
                with self._trace, self._place:
                    return switch()
            finally:
                self._exchange_config()
        with self._trace, self._place, self._device:
            before = config_fingerprint()
            try:
                return switch()
            finally:
                if config_fingerprint() != before:
                    self._exchange_config()

    def _exchange_config(self) -> None:
        self._config = get_local_config()
        set_local_config(self._callers_config)


class _EagerCommunicator:
    """A greenlet's connection to the other replicas."""

    def __init__(self, replica: _Replica, collective: Collective) -> None:
        self._replica = replica
        self._collective = collective

    @property
    def replica_id(self) -> int:
        return self._replica.number

    def merge_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        leaves = jax.tree.leaves((args, kwargs))
        if is_staging() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise self._refusal("merge_call")
        return self._replica.ask(MergeCall(fn, args, kwargs))

    def all_reduce(
        self,
        op: ReduceOp,
        values: list[jax.Array],
        options: CommunicationOptions,
        structure: Any = None,
    ) -> list[jax.Array]:
        if self._is_differentiated("all_reduce", values):
            again = functools.partial(
                self.all_reduce, op, options=options, structure=structure
            )
            return differentiable_reduce(again, values)
        request = AllReduce(op, values, options, structure)
        return self._replica.ask(request)

    def all_gather(
        self, values: list[jax.Array], axis: int, structure: Any = None
    ) -> list[jax.Array]:
        if self._is_differentiated("all_gather", values):
            add_up = functools.partial(
                self.all_reduce,
                ReduceOp.SUM,
                options=self._collective.options,
                structure=structure,
            )
            number = self.replica_id
            return differentiable_gather(self.all_gather, add_up, values, axis, number)
        request = AllGather(values, axis, structure)
        return self._replica.ask(request)

    def _is_differentiated(self, kind: str, values: Sequence[Any]) -> bool:
        """Returns whether this collective is part of a derivative."""
        if is_eager():
            return False
        is_traced = any(isinstance(value, jax.core.Tracer) for value in values)
        is_part = is_traced or is_staging()
        is_inside = self._replica.is_inside_derivative
        if is_part and (is_inside or not is_differentiating_only()):
            raise self._refusal(kind)
        return is_traced or is_recorded()

    def _refusal(self, kind: str) -> RuntimeError:
        return RuntimeError(
            f"`{kind}` is called inside a JAX transformation (jit, scan, cond, "
            "vmap, ...) in an eager `strategy.run`, where replicas cannot communicate. "
            f"Received: the call at {user_frames.caller()}. {self._replica.advice}"
        )
