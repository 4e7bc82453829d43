"""Compiled `run` on parts of different shapes, such as a last partial batch.

One program for all replicas needs equal shapes. Here each replica has a program of its
own, cut where the replicas meet; the pieces run one after another, with the collectives
between them. Exact: nothing is padded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import JaxprEqn
from jax.sharding import PartitionSpec

from mirrax import jax_internals, trees
from mirrax.collectives.reduce import Collective
from mirrax.context import stack
from mirrax.devices.topology import AXIS, Topology
from mirrax.run.eager import run_eager
from mirrax.run.function import Function
from mirrax.run.jaxprs import Values, bind, initial_values, kind_of, read
from mirrax.run.replica_context import ReplicaContext
from mirrax.run.segments import Cut, NotSegmentable, cut
from mirrax.run.spmd import SpmdMeeting, find_result_varying, join_result, split_result
from mirrax.run.tracing import Traced, trace
from mirrax.trees import Leaf, Same, Tree
from mirrax.values.layouts import Parts, join, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import select
from mirrax.variables.distributed import DistributedVariable
from mirrax.variables.sync_on_read import SyncOnReadVariable
from mirrax.variables.variable import Variable


def has_uneven(tree: Tree) -> bool:
    """Returns whether replicas would get arrays of different shapes from `tree`."""
    return any(_is_uneven(leaf) for leaf in trees.leaves(tree))


def run_uneven(
    strategy: Any,
    collective: Collective,
    fn: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Tree:
    """Returns the merged results of `fn`; eagerly if its program cannot be cut."""
    count = len(collective.topology.local_devices)
    calls = [trees.flatten(select((args, kwargs), index)) for index in range(count)]
    key = ("uneven", collective, *(_key(leaves, tree) for leaves, tree in calls))
    plan = fn.cached(key, lambda: _build(strategy, collective, fn, calls))
    if plan is None:
        return run_eager(strategy, collective, fn.python_function, args, kwargs)
    arrays = [[leaf for leaf in leaves if _is_array(leaf)] for leaves, _ in calls]
    return plan(arrays)


def _build(
    strategy: Any, collective: Collective, fn: Function, calls: Sequence[Any]
) -> _Plan | None:
    """Returns the plan for calls of these shapes; None if it has to be eager."""
    topology = collective.topology
    axis_env = [(AXIS, topology.num_replicas)]

    def trace_replica(index: int) -> Traced:
        leaves, structure = calls[index]
        number = topology.local_replicas[index]

        def body(*values: Any) -> tuple[Sequence[jax.Array], Any]:
            given = iter(values)
            filled = [next(given) if _is_array(leaf) else leaf for leaf in leaves]
            fn_args, fn_kwargs = trees.unflatten(structure, filled)
            meeting = SpmdMeeting(strategy, collective, number)
            frame = stack.Replica(strategy, ReplicaContext(strategy, meeting), None)
            with stack.entered(frame):
                return split_result(fn.python_function(*fn_args, **fn_kwargs))

        arguments = [
            jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))
            for leaf in leaves
            if _is_array(leaf)
        ]
        return trace(body, arguments, inside_replica=True, axis_env=axis_env)

    traces = [trace_replica(index) for index in range(len(calls))]
    try:
        cuts = [cut(traced.closed, axis_env) for traced in traces]
    except NotSegmentable:
        return None
    first = traces[0]
    agrees = all(
        piece.meetings == cuts[0].meetings
        and traced.writes == first.writes
        and traced.result[0] == first.result[0]
        for piece, traced in zip(cuts, traces, strict=True)
    )
    if not agrees:
        # The eager engine finds out what differs, and gathers unequal parts.
        return None
    num_arguments = len(first.jaxpr.invars) - len(first.reads)
    varying = find_result_varying(first, [True] * num_arguments)
    meetings = tuple(
        _meeting_program(topology, segment.collectives) for segment in cuts[0].segments
    )
    return _Plan(topology, tuple(traces), tuple(cuts), tuple(varying), meetings)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """One program per replica, ready to run in lockstep."""

    topology: Topology
    traces: tuple[Traced, ...]
    cuts: tuple[Cut, ...]
    varying: tuple[bool, ...]
    meetings: tuple[Any, ...]

    def __call__(self, arrays: Sequence[Sequence[Any]]) -> Tree:
        devices = self.topology.local_devices
        states = [
            initial_values(
                piece.closed,
                [
                    *(to_device(array, device) for array in own),
                    *(_part(variable, index) for variable in traced.reads),
                ],
            )
            for index, (piece, traced, own, device) in enumerate(
                zip(self.cuts, self.traces, arrays, devices, strict=True)
            )
        ]
        for variable in self.traces[0].reads:
            variable.is_lent = True
        for step in range(len(self.cuts[0].segments)):
            self._advance(step, states)
        columns = list(
            zip(
                *(
                    [read(values, atom) for atom in piece.closed.jaxpr.outvars]
                    for piece, values in zip(self.cuts, states, strict=True)
                ),
                strict=True,
            )
        )
        count = len(self.traces[0].writes)
        for variable, parts in zip(self.traces[0].writes, columns[:count], strict=True):
            self._store(variable, parts)
        results = [
            PerReplica(parts) if varies else self._mirror(parts)
            for parts, varies in zip(columns[count:], self.varying, strict=True)
        ]
        return join_result(self.traces[0].result, results)

    def _advance(self, step: int, states: Sequence[Values]) -> None:
        for piece, values, device in zip(
            self.cuts, states, self.topology.local_devices, strict=True
        ):
            segment = piece.segments[step]
            if segment.run is not None:
                with jax.default_device(device):
                    outputs = segment.run(*(read(values, v) for v in segment.inputs))
                values.update(zip(segment.outputs, outputs, strict=True))
        segments = [piece.segments[step] for piece in self.cuts]
        if segments[0].collectives:
            self._meet(step, [s.collectives for s in segments], states)

    def _meet(
        self,
        step: int,
        collectives: Sequence[tuple[JaxprEqn, ...]],
        states: Sequence[Values],
    ) -> None:
        inputs = [
            [read(values, atom) for eqn in eqns for atom in eqn.invars]
            for eqns, values in zip(collectives, states, strict=True)
        ]
        joined = [
            join(tuple(parts), self.topology) for parts in zip(*inputs, strict=True)
        ]
        outputs = self.meetings[step](*joined)
        columns = [jax_internals.shards(output) for output in outputs]
        for index, (eqns, values) in enumerate(zip(collectives, states, strict=True)):
            made = [var for eqn in eqns for var in eqn.outvars]
            values.update(
                (var, column[index].reshape(kind_of(var)[0]))
                for var, column in zip(made, columns, strict=True)
            )

    def _store(self, variable: Variable, parts: Sequence[Any]) -> None:
        if isinstance(variable, SyncOnReadVariable):
            variable.store(join(tuple(parts), self.topology))
        else:
            variable.store(self._mirror(parts))
        # The pieces may have handed what they were given through to the results.
        variable.is_lent = True

    def _mirror(self, parts: Sequence[Any]) -> jax.Array:
        """Returns parts that are known to be equal as one replicated array."""
        pieces = [
            to_device(part, device)
            for part, device in zip(parts, self.topology.local_devices, strict=True)
        ]
        return jax.make_array_from_single_device_arrays(
            pieces[0].shape, self.topology.replicated, pieces
        )


def _meeting_program(topology: Topology, eqns: tuple[JaxprEqn, ...]) -> Any:
    """Returns collectives as a program over all replicas."""

    def body(*values: jax.Array) -> list[jax.Array]:
        given = iter(values)
        outputs: list[jax.Array] = []
        for eqn in eqns:
            inputs = [next(given).reshape(kind_of(atom)[0]) for atom in eqn.invars]
            outputs.extend(bind(eqn, inputs, eqn.params))
        return [output[None] for output in outputs]

    return jax.jit(
        jax.shard_map(
            body,
            mesh=topology.mesh,
            in_specs=PartitionSpec(AXIS),
            out_specs=PartitionSpec(AXIS),
            check_vma=False,
        )
    )


def _part(variable: Variable, index: int) -> jax.Array:
    if isinstance(variable, SyncOnReadVariable):
        return variable.part(index)
    if isinstance(variable, DistributedVariable):
        return jax_internals.shards(variable.stored)[index]
    return variable.stored


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _is_uneven(leaf: Any) -> bool:
    if not isinstance(leaf, PerReplica) or not isinstance(leaf.layout, Parts):
        return False
    parts = leaf.layout.held
    return all(_is_array(part) for part in parts) and any(
        part.shape != parts[0].shape or part.dtype != parts[0].dtype for part in parts
    )


def _key(leaves: Sequence[Any], structure: Any) -> Any:
    return structure, tuple(
        (leaf.shape, leaf.dtype)
        if _is_array(leaf)
        else Same(leaf)
        if isinstance(leaf, Leaf)
        else leaf
        for leaf in leaves
    )
