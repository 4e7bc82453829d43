"""Compiled `run` on parts of different shapes, such as a last partial batch.

One program for all replicas needs equal shapes. Here each replica has a program of its
own, cut where the replicas meet; the pieces run one after another, with the collectives
between them. Exact: nothing is padded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax import trees
from mirrax._jax.config import config_fingerprint
from mirrax.collectives import spmd
from mirrax.collectives.worker_exchange import exchange
from mirrax.context.guards import MustDrive
from mirrax.devices.topology import AXIS, Topology
from mirrax.run.compiled import decisions
from mirrax.run.compiled.arguments import NUMBERS, refuse_donated, static_key
from mirrax.run.compiled.callbacks import Failures, catch_failures, has_callbacks
from mirrax.run.compiled.function import AnyFunction
from mirrax.run.compiled.replica_trace import (
    find_varying_outputs,
    refuse_varying_writes,
    split_result,
    stand_in,
)
from mirrax.run.compiled.spmd_communicator import SpmdCommunicator, call_in_replica
from mirrax.run.compiled.tracing import Traced, trace
from mirrax.run.eager.scheduler import run_eager
from mirrax.run.replica_context import ReplicaCall
from mirrax.run.uneven.gather_sizes import GatheredSizes, UnknownSizes
from mirrax.run.uneven.lockstep import Lockstep, meeting_program
from mirrax.run.uneven.output_digests import differing_columns, output_digests
from mirrax.run.uneven.segments import Cut, NotSegmentable, cut
from mirrax.trees import Tree
from mirrax.values.layouts import Parts, Replicated
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of

_EAGER = object()

_ADVICE = (
    "With parts of different shapes, such as a last partial batch, a collective cannot "
    "stand inside a loop or a branch: move it out, or make the parts equal."
)


def run_uneven(call: ReplicaCall, fn: AnyFunction) -> Tree:
    """Returns the merged results of `fn`; eagerly if its program cannot be cut."""
    arguments = _Arguments.of(call)
    kinds = _kinds_of_all(call)
    config = config_fingerprint()
    key = ("uneven", call.collective, arguments.key, kinds, config)
    noticed = decisions.noticing(call.fn) if fn.python_decisions else call.fn
    traced = dataclasses.replace(call, fn=noticed)
    plan = fn.programs.get(key, _build, traced, arguments, fn.programs.count_trace)
    if plan is _EAGER:
        # Where the functions that it calls decide, replicas may call different ones.
        call = dataclasses.replace(call, is_deciding=fn.python_decisions)
        return run_eager(call, _ADVICE)
    return plan([arguments.arrays(row) for row in arguments.rows])


@dataclasses.dataclass(frozen=True)
class _Arguments:
    """The arguments of one call, replica by replica.

    Args:
        structure: How they are nested.
        rows: The leaves for each local replica.
        is_dynamic: Which leaves are inputs of the programs.
        is_own: Which leaves differ between replicas.
    """

    structure: Any
    rows: list[tuple[Any, ...]]
    is_dynamic: list[bool]
    is_own: list[bool]

    @classmethod
    def of(cls, call: ReplicaCall) -> _Arguments:
        leaves, structure = trees.flatten((call.args, call.kwargs))
        columns = [parts_of(leaf, call.topology) for leaf in leaves]
        refuse_donated(itertools.chain.from_iterable(columns))
        return cls(
            structure,
            [
                tuple(parts[i] for parts in columns)
                for i in range(len(call.topology.local_devices))
            ],
            [_is_array(parts[0]) or type(parts[0]) in NUMBERS for parts in columns],
            [_is_own(leaf) for leaf in leaves],
        )

    @property
    def key(self) -> Any:
        return self.structure, tuple(
            (part.shape, part.dtype)
            if _is_array(part)
            else ("number", type(part))
            if dynamic
            else static_key(part)
            for row in self.rows
            for part, dynamic in zip(row, self.is_dynamic, strict=True)
        )

    def arrays(self, row: tuple[Any, ...]) -> list[Any]:
        return [
            part if _is_array(part) else jnp.asarray(part)
            for part, dynamic in zip(row, self.is_dynamic, strict=True)
            if dynamic
        ]

    def filled(self, row: tuple[Any, ...], values: Sequence[Any]) -> Any:
        given = iter(values)
        leaves = [
            next(given) if dynamic else part
            for part, dynamic in zip(row, self.is_dynamic, strict=True)
        ]
        return trees.unflatten(self.structure, leaves)


def _kinds_of_all(call: ReplicaCall) -> Any:
    """Returns shapes on all workers, so that all of them know a plan or build it."""
    if call.topology.is_local:
        return None
    layouts = [
        leaf.layout
        for leaf in trees.leaves((call.args, call.kwargs))
        if isinstance(leaf, PerReplica)
    ]
    return tuple(layout.shapes for layout in layouts if isinstance(layout, Parts))


def _build(
    call: ReplicaCall, arguments: _Arguments, count_trace: Callable[[], None]
) -> Any:
    """Returns the plan for arguments of these shapes, or that it has to be eager."""
    count_trace()
    axis_env = [(AXIS, call.topology.num_replicas)]
    failures = Failures()
    traces, cuts = _cut_all(call, arguments, axis_env, failures)
    digests = [output_digests(piece.closed) for piece in cuts]
    if not call.topology.is_local:
        cuts, digests = _agree(call.topology, cuts, digests)
    if not cuts:
        # The eager engine finds out what differs, and gathers unequal parts.
        return _EAGER
    is_own = [
        own
        for own, dynamic in zip(arguments.is_own, arguments.is_dynamic, strict=True)
        if dynamic
    ]
    varying = [
        varies or differs
        for varies, differs in zip(
            find_varying_outputs(traces[0], is_own),
            differing_columns(digests),
            strict=True,
        )
    ]
    refuse_varying_writes(traces[0], varying)
    return Lockstep(
        call.topology,
        tuple(traces),
        tuple(cuts),
        tuple(varying[len(traces[0].writes) :]),
        tuple(meeting_program(call.topology, s.collectives) for s in cuts[0].segments),
        failures if has_callbacks(traces[0].jaxpr) else None,
    )


def _trace_all(
    call: ReplicaCall, arguments: _Arguments, axis_env: list[tuple[str, int]]
) -> list[Traced]:
    """Returns the trace of each local replica.

    They are traced again for each `all_gather` of parts whose sizes differ, because
    what follows it depends on the sizes of all.
    """
    gathers = GatheredSizes()
    topology = call.topology

    def trace_replica(row: tuple[Any, ...], number: int) -> Traced:
        def body(*values: Any) -> tuple[Sequence[jax.Array], Any]:
            args, kwargs = arguments.filled(row, values)
            gather = gathers.seen_by(number, topology.num_replicas)
            if not topology.is_local:
                gather = spmd.all_gather
            meeting = SpmdCommunicator(call.strategy, call.collective, number, gather)
            return split_result(call_in_replica(call, args, kwargs, meeting))

        stand_ins = [stand_in(array) for array in arguments.arrays(row)]
        return trace(body, stand_ins, inside_replica=True, axis_env=axis_env)

    while True:
        traces = []
        for row, number in zip(arguments.rows, topology.local_replicas, strict=True):
            with contextlib.suppress(UnknownSizes):
                traces.append(trace_replica(row, number))
        if len(traces) == len(arguments.rows):
            return traces
        if traces or not gathers.learn():
            # Some replicas do not call it: the eager engine says which.
            raise NotSegmentable


def _cut_all(
    call: ReplicaCall,
    arguments: _Arguments,
    axis_env: list[tuple[str, int]],
    failures: Failures,
) -> tuple[list[Traced], list[Cut]]:
    """Returns the programs of replicas in pieces; none if they do not go together."""
    try:
        traces = _trace_all(call, arguments, axis_env)
        if has_callbacks(traces[0].jaxpr) and call.topology.is_local:
            traces = [
                dataclasses.replace(t, closed=catch_failures(t.closed, failures))
                for t in traces
            ]
        cuts = [cut(traced.closed, axis_env) for traced in traces]
    except NotSegmentable:
        return [], []
    except decisions.Decided as decided:
        name = getattr(call.fn, "__name__", repr(call.fn))
        decisions.tell(name, decided, decisions.ON_REPLICAS)
        return [], []
    except MustDrive:
        return [], []
    if any(piece.meetings != cuts[0].meetings for piece in cuts) or any(
        _shape(traced) != _shape(traces[0]) for traced in traces
    ):
        return [], []
    return traces, cuts


def _agree(
    topology: Topology, cuts: list[Cut], digests: list[list[bytes]]
) -> tuple[list[Cut], list[list[bytes]]]:
    """Returns the same with what other workers found; no pieces if one has none."""
    meetings = repr(cuts[0].meetings) if cuts else None
    own = json.dumps([meetings, [[d.hex() for d in row] for row in digests]])
    answers = exchange(topology, "pieces of an uneven program", own)
    all_meetings, rows = zip(*map(json.loads, answers), strict=True)
    if None in all_meetings or len(set(all_meetings)) > 1:
        return [], []
    return cuts, [[bytes.fromhex(d) for d in row] for own in rows for row in own]


def _shape(traced: Traced) -> Any:
    """Returns what must be equal on all replicas: variables, and form of the result."""
    structure, is_array, _ = traced.result
    variables = (*traced.reads, None, *traced.writes)
    return structure, is_array, [id(variable) for variable in variables]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _is_own(leaf: Any) -> bool:
    return isinstance(leaf, PerReplica) and not isinstance(leaf.layout, Replicated)
