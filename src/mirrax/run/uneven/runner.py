"""Compiled `run` on parts of different shapes, such as a last partial batch.

One program for all replicas needs equal shapes. Here each replica is traced on its own,
`segments` cuts the traces at their collectives, and `lockstep` executes the segments.
Exact: nothing is padded. If it is impossible, as with a collective in a loop or an
`all_gather`, the eager engine runs the call.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import jax

from mirrax import trees
from mirrax._jax.config import config_fingerprint
from mirrax.collectives.worker_exchange import equal_on_all, exchange
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import AXIS
from mirrax.run.compiled.arguments import CallArguments, keyed_argument
from mirrax.run.compiled.callbacks import Failures, catch_failures, has_callbacks
from mirrax.run.compiled.compiled_call import CompiledCall
from mirrax.run.compiled.donation import refuse_donated
from mirrax.run.compiled.mapped_trace import find_varying_outputs
from mirrax.run.compiled.results import Results, split_results_of_replica
from mirrax.run.compiled.spmd_communicator import call_in_replica
from mirrax.run.compiled.tracing import Traced, trace
from mirrax.run.eager.scheduler import run_eager
from mirrax.run.replica_context import ReplicaCall
from mirrax.run.uneven.digests import differing_columns, find_digests
from mirrax.run.uneven.lockstep import Lockstep
from mirrax.run.uneven.replica_number import with_replica_number
from mirrax.run.uneven.segments import Cut, cut
from mirrax.run.varying import refuse_varying_writes
from mirrax.trees import Tree
from mirrax.values.layouts import Parts, Replicated, replicate_parts
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of
from mirrax.variables.foreign_variable import Outdated
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable

_ADVICE = (
    "With parts of different shapes, such as a last partial batch, use `mirrax.scan`, "
    "`mirrax.cond`, ... in place of JAX's around it, or make the parts equal."
)
_EAGER = object()


def run_uneven(call: ReplicaCall, compiled: CompiledCall) -> Tree:
    """Returns the merged results of a call; eagerly if its program cannot be cut.

    Args:
        compiled: The function on the replicas, which caches what is compiled.
    """
    given = _arguments_of_replicas(call)
    keys = tuple(each.keys for each in given)
    if not all(each.are_traceable for each in given):
        return _run_eagerly(call)
    structures = (given[0].structure, keys, _kinds_of_all(call))
    fingerprint = compiled.fingerprint(trees.leaves((call.args, call.kwargs)))
    key = ("uneven", structures, fingerprint, config_fingerprint())
    plan = compiled.programs.get(key, _build, call, given, compiled)
    if plan is _EAGER:
        return _run_eagerly(call)
    try:
        result: Tree = plan([each.arrays for each in given])
    except Outdated:
        compiled.programs.drop(key)
        raise
    return result


def _run_eagerly(call: ReplicaCall) -> Tree:
    """Runs a call eagerly; its arrays that are equal on all replicas are mirrored.

    So state that goes in and comes out stays mirrored, as in compiled calls.
    """
    topology = call.topology
    leaves, structure = trees.flatten(run_eager(call, _ADVICE))
    found = {
        index: leaf.values
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, PerReplica)
        and all(isinstance(part, jax.Array) for part in leaf.values)
    }
    topic = "results of an uneven step"
    are_equal = equal_on_all(topology, topic, [*found.values()])
    for (index, parts), is_equal in zip(found.items(), are_equal, strict=True):
        if is_equal:
            leaves[index] = replicate_parts(parts, topology)
    return trees.unflatten(structure, leaves)


def _arguments_of_replicas(call: ReplicaCall) -> list[CallArguments]:
    leaves, structure = trees.flatten((call.args, call.kwargs))
    columns = [parts_of(leaf, call.topology) for leaf in leaves]
    refuse_donated(list(itertools.chain.from_iterable(columns)))
    rows = [
        [parts[index] for parts in columns]
        for index in range(len(call.topology.local_devices))
    ]
    return [
        CallArguments([keyed_argument(leaf, None) for leaf in row], structure)
        for row in rows
    ]


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


def _build(
    call: ReplicaCall, given: Sequence[CallArguments], compiled: CompiledCall
) -> Any:
    """Returns the `Lockstep` for arguments of these shapes, or `_EAGER`."""
    compiled.programs.count_trace()
    failures = Failures()
    traces: list[Traced] = []
    cuts: list[Cut] = []
    try:
        traces = _trace_all(call, given, failures)
        cuts = [cut(traced.closed, call.topology) for traced in traces]
    except NotTraceable:
        pass
    except Exception as error:
        if not compiled.falls_back_to_python(error):
            raise
    plans = sorted({str([*map(str, piece.segments)]) for piece in cuts})
    digests = [find_digests(piece.closed) for piece in cuts]
    if not call.topology.is_local:
        own = [plans, digests]
        answers = exchange(call.topology, "pieces of an uneven program", own)
        found = [each for each, _ in answers]
        plans = sorted(set().union(*found)) if all(found) else []
        digests = list(itertools.chain.from_iterable(each for _, each in answers))
    if len(plans) != 1:
        # The eager engine says what differs, and gathers unequal parts.
        return _EAGER
    leaves = trees.leaves((call.args, call.kwargs))
    is_varying = given[0].of_inputs([_is_varying(leaf) for leaf in leaves])
    varying = find_varying_outputs(traces[0], is_varying)
    differing = differing_columns(digests)
    writes = traces[0].writes
    refuse_varying_writes(writes, varying)
    if any(
        differs and not isinstance(variable, SyncOnReadVariable)
        for variable, differs in zip(writes, differing, strict=False)
    ):
        # The eager engine compares the values.
        return _EAGER
    varying = list(map(operator.or_, varying, differing))
    return Lockstep(
        call.topology,
        tuple(traces),
        tuple(cuts),
        tuple(varying[len(writes) :]),
        failures if has_callbacks(traces[0].jaxpr) else None,
    )


def _trace_all(
    call: ReplicaCall, given: Sequence[CallArguments], failures: Failures
) -> list[Traced]:
    """Returns the trace of each local replica; raises if they differ in variables."""
    topology = call.topology
    axis_env = [(AXIS, topology.num_replicas)]

    def trace_replica(own: CallArguments, number: int) -> Traced:
        def body(*values: Any) -> tuple[Sequence[jax.Array], Any]:
            args, kwargs = own.filled(values)
            return split_results_of_replica(
                call_in_replica(call, args, kwargs, has_equal_parts=False)
            )

        traced = trace(body, own.stand_ins, inside_replica=True, axis_env=axis_env)
        closed = with_replica_number(traced.closed, number, topology)
        if topology.is_local and has_callbacks(closed.jaxpr):
            closed = catch_failures(closed, failures)
        return dataclasses.replace(traced, closed=closed)

    traces = list(map(trace_replica, given, topology.local_replicas))
    if any(_shape(traced) != _shape(traces[0]) for traced in traces):
        raise NotTraceable
    return traces


def _shape(traced: Traced) -> Any:
    """Returns what must be equal on all replicas: variables and result structure."""
    results: Results = traced.result
    variables = (*traced.reads, None, *traced.writes)
    return results.structure, results.placements, [id(each) for each in variables]


def _is_varying(leaf: Any) -> bool:
    return isinstance(leaf, PerReplica) and not isinstance(leaf.layout, Replicated)
