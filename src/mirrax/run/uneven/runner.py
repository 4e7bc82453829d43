"""Compiled `run` on parts of different shapes, such as a last partial batch.

One program for all replicas needs equal shapes. Here each replica is traced on its own
(`replica_traces`), `segments` cuts the traces at their collectives, and `lockstep`
executes the segments.
Exact: nothing is padded. If it is impossible, the eager engine runs the call.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from mirrax import trees
from mirrax._jax.config import config_fingerprint
from mirrax.collectives.worker_exchange import exchange
from mirrax.context.guards import NotTraceable
from mirrax.run.compiled.arguments import CallArguments, keyed_argument
from mirrax.run.compiled.callbacks import Failures, has_callbacks
from mirrax.run.compiled.compiled_call import CompiledCall
from mirrax.run.compiled.donation import refuse_donated
from mirrax.run.compiled.mapped_trace import find_varying_outputs
from mirrax.run.compiled.tracing import Traced
from mirrax.run.eager.scheduler import run_eager
from mirrax.run.replica_context import ReplicaCall
from mirrax.run.uneven.digests import differing_columns, find_digests
from mirrax.run.uneven.lockstep import ADVICE, Lockstep
from mirrax.run.uneven.replica_traces import trace_replicas
from mirrax.run.uneven.segments import Cut, cut
from mirrax.run.varying import refuse_varying_writes
from mirrax.trees import Tree
from mirrax.values.layouts import Parts, Replicated
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of
from mirrax.variables.foreign_variable import Outdated

_EAGER = object()


def run_uneven(call: ReplicaCall, compiled: CompiledCall) -> Tree:
    """Returns the merged results of a call; eagerly if its program cannot be cut.

    Args:
        compiled: The function on the replicas, which caches what is compiled.
    """
    given = _arguments_of_replicas(call)
    keys = tuple(each.keys for each in given)
    if not all(each.are_traceable for each in given):
        return run_eager(call, ADVICE)
    structures = (given[0].structure, keys, _kinds_of_all(call))
    fingerprint = compiled.fingerprint(trees.leaves((call.args, call.kwargs)))
    key = ("uneven", structures, fingerprint, config_fingerprint())
    plan = compiled.programs.get(key, _build, call, given, compiled)
    if plan is _EAGER:
        return run_eager(call, ADVICE)
    try:
        result: Tree = plan([each.arrays for each in given])
    except Outdated:
        compiled.programs.drop(key)
        raise
    return result


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
        traces = trace_replicas(call, given, failures)
        cuts = [cut(traced.closed, call.topology) for traced in traces]
    except NotTraceable:
        pass
    except Exception as error:
        if not compiled.falls_back_to_python(error):
            raise
    plans = sorted({repr(piece.collectives) for piece in cuts})
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
    is_varying = [
        isinstance(leaf, PerReplica) and not isinstance(leaf.layout, Replicated)
        for leaf in leaves
    ]
    varying = find_varying_outputs(traces[0], given[0].of_inputs(is_varying))
    differing = differing_columns(digests)
    varying = list(map(operator.or_, varying, differing))
    refuse_varying_writes(traces[0].writes, varying)
    return Lockstep(
        call.topology,
        tuple(traces),
        tuple(cuts),
        tuple(varying[len(traces[0].writes) :]),
        failures if has_callbacks(traces[0].jaxpr) else None,
    )
