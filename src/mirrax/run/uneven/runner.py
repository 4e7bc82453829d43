"""Compiled `run` on parts of different shapes, such as a last partial batch.

One program for all replicas needs equal shapes. Here each replica is traced on its own,
`segments` cuts the traces at their collectives, and `lockstep` executes the segments.
Exact: nothing is padded. If it is impossible, the eager engine runs the call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax

from mirrax import trees
from mirrax._jax.config import config_fingerprint
from mirrax.collectives import spmd
from mirrax.collectives.worker_exchange import exchange
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import AXIS, Topology
from mirrax.run.compiled.arguments import NOT_TRACEABLE, keyed_arguments, stand_in_of
from mirrax.run.compiled.callbacks import Failures, catch_failures, has_callbacks
from mirrax.run.compiled.compiled_call import CallArguments
from mirrax.run.compiled.donation import refuse_donated
from mirrax.run.compiled.function import AnyFunction
from mirrax.run.compiled.mapped_trace import (
    find_varying_outputs,
    split_result,
)
from mirrax.run.compiled.spmd_communicator import SpmdCommunicator, call_in_replica
from mirrax.run.compiled.tracing import Traced, trace
from mirrax.run.eager.scheduler import run_eager
from mirrax.run.replica_context import ReplicaCall
from mirrax.run.uneven.digests import differing_columns, find_digests
from mirrax.run.uneven.gather_sizes import GatheredSizes, UnknownSizes
from mirrax.run.uneven.lockstep import Lockstep
from mirrax.run.uneven.segments import Cut, NotSegmentable, cut
from mirrax.run.varying import refuse_varying_writes
from mirrax.trees import Tree
from mirrax.values.layouts import Parts, Replicated
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of

_EAGER = object()

_ADVICE = (
    "With parts of different shapes, such as a last partial batch, all replicas must "
    "make the same calls in loops and branches of JAX. Let these not depend on the "
    "size of a part, use `mirrax.scan`, `mirrax.cond`, ... in place of JAX's, or make "
    "the parts equal."
)


def run_uneven(call: ReplicaCall, fn: AnyFunction) -> Tree:
    """Returns the merged results of `fn`; eagerly if its program cannot be cut."""
    given = _arguments_of_replicas(call)
    keys = tuple(key for each in given for key, _, _ in each.keyed)
    if NOT_TRACEABLE[0] in keys:
        return run_eager(call, _ADVICE)
    structures = (given[0].structure, keys, _kinds_of_all(call))
    key = ("uneven", call.collective, structures, config_fingerprint())
    plan = fn.programs.get(key, _build, call, given, fn)
    if plan is _EAGER:
        return run_eager(call, _ADVICE)
    return plan([each.arrays for each in given])


def _arguments_of_replicas(call: ReplicaCall) -> list[CallArguments]:
    leaves, structure = trees.flatten((call.args, call.kwargs))
    columns = [parts_of(leaf, call.topology) for leaf in leaves]
    refuse_donated(list(itertools.chain.from_iterable(columns)))
    rows = [
        [parts[index] for parts in columns]
        for index in range(len(call.topology.local_devices))
    ]
    return [CallArguments(row, structure, keyed_arguments(row, None)) for row in rows]


def _kinds_of_all(call: ReplicaCall) -> Any:
    """Returns shapes on all workers, so that all of them hit the cache or none."""
    if call.topology.is_local:
        return None
    layouts = [
        leaf.layout
        for leaf in trees.leaves((call.args, call.kwargs))
        if isinstance(leaf, PerReplica)
    ]
    return tuple(layout.shapes for layout in layouts if isinstance(layout, Parts))


def _build(call: ReplicaCall, given: Sequence[CallArguments], fn: AnyFunction) -> Any:
    """Returns the `Lockstep` for arguments of these shapes, or `_EAGER`."""
    fn.programs.count_trace()
    failures = Failures()
    try:
        traces, cuts = _cut_all(call, given, failures)
    except Exception as error:
        if not fn.falls_back_to_python(error):
            raise
        traces, cuts = [], []
    digests = [find_digests(piece.closed) for piece in cuts]
    outputs = [own.outputs for own in digests]
    plans = {
        repr((piece.collectives, own.decisions))
        for piece, own in zip(cuts, digests, strict=True)
    }
    if not call.topology.is_local:
        plans, outputs = _of_all_workers(call.topology, plans, outputs)
    if len(plans) != 1:
        # The eager engine says what differs, and gathers unequal parts.
        return _EAGER
    leaves = trees.leaves((call.args, call.kwargs))
    is_varying = given[0].of_dynamic([_is_varying(leaf) for leaf in leaves])
    varying = [
        varies or differs
        for varies, differs in zip(
            find_varying_outputs(traces[0], is_varying),
            differing_columns(outputs),
            strict=True,
        )
    ]
    refuse_varying_writes(traces[0].writes, varying)
    return Lockstep(
        call.topology,
        tuple(traces),
        tuple(cuts),
        tuple(varying[len(traces[0].writes) :]),
        failures if has_callbacks(traces[0].jaxpr) else None,
    )


def _trace_all(call: ReplicaCall, given: Sequence[CallArguments]) -> list[Traced]:
    """Returns the trace of each local replica.

    They are traced again for each `all_gather` of parts whose sizes differ, because
    what follows it depends on the sizes of all.
    """
    gathers = GatheredSizes()
    topology = call.topology
    axis_env = [(AXIS, topology.num_replicas)]

    def trace_replica(own: CallArguments, number: int) -> Traced:
        def body(*values: Any) -> tuple[Sequence[jax.Array], Any]:
            args, kwargs = own.filled(values)
            gather = gathers.seen_by(number, topology.num_replicas)
            if not topology.is_local:
                gather = spmd.all_gather
            communicator = SpmdCommunicator(
                call.strategy, call.collective, number, gather
            )
            return split_result(call_in_replica(call, args, kwargs, communicator))

        stand_ins = [stand_in_of(argument) for argument in own.dynamic]
        return trace(body, stand_ins, inside_replica=True, axis_env=axis_env)

    while True:
        traces = []
        for own, number in zip(given, topology.local_replicas, strict=True):
            with contextlib.suppress(UnknownSizes):
                traces.append(trace_replica(own, number))
        if len(traces) == len(given):
            return traces
        if traces or not gathers.learn():
            # Some replicas do not call it: the eager engine says which.
            raise NotSegmentable


def _cut_all(
    call: ReplicaCall,
    given: Sequence[CallArguments],
    failures: Failures,
) -> tuple[list[Traced], list[Cut]]:
    """Returns the traces and their segments; none if that is impossible."""
    try:
        traces = _trace_all(call, given)
        if has_callbacks(traces[0].jaxpr) and call.topology.is_local:
            traces = [
                dataclasses.replace(t, closed=catch_failures(t.closed, failures))
                for t in traces
            ]
        cuts = [cut(traced.closed, call.topology) for traced in traces]
    except (NotSegmentable, NotTraceable):
        return [], []
    if any(_shape(traced) != _shape(traces[0]) for traced in traces):
        return [], []
    return traces, cuts


def _of_all_workers(
    topology: Topology, plans: set[str], outputs: list[list[str]]
) -> tuple[set[str], list[list[str]]]:
    """Returns the plans and the digests of the outputs of all replicas.

    There is no plan if a worker has none.
    """
    own = [sorted(plans), outputs]
    answers = exchange(topology, "pieces of an uneven program", own)
    found = [set(each) for each, _ in answers]
    rows = itertools.chain.from_iterable(each for _, each in answers)
    return set().union(*found) if all(found) else set(), list(rows)


def _shape(traced: Traced) -> Any:
    """Returns what must be equal on all replicas: variables and result structure."""
    structure, flags, _ = traced.result
    variables = (*traced.reads, None, *traced.writes)
    return structure, flags, [id(variable) for variable in variables]


def _is_varying(leaf: Any) -> bool:
    return isinstance(leaf, PerReplica) and not isinstance(leaf.layout, Replicated)
