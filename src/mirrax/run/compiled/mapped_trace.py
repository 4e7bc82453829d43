"""One replica's step as a trace, mapped over all replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from typing_extensions import override

from mirrax import trees
from mirrax._jax.jaxprs import ClosedJaxpr, is_reference, kind_of
from mirrax.collectives import worker_exchange
from mirrax.collectives.worker_exchange import shape_dtype_of
from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import AXIS, Topology
from mirrax.errors import VaryingError
from mirrax.lazy_modules import LazyModule
from mirrax.run.compiled.arguments import CallArguments, same_object, traced_argument
from mirrax.run.compiled.placement import PLAIN, Placement, placement_of_variable
from mirrax.run.compiled.results import Results, split_results_of_replica
from mirrax.run.compiled.spmd_communicator import call_in_replica
from mirrax.run.compiled.tracing import Traced, trace
from mirrax.run.replica_context import ReplicaCall, differing_rows
from mirrax.run.sharded.evaluation import evaluate_in_parts
from mirrax.run.sharded.plan import may_divide_update
from mirrax.run.uneven.exchanged_shapes import traced_with_shapes
from mirrax.run.uneven.merge import merged
from mirrax.run.varying import find_varying, refuse_varying_writes
from mirrax.trees import Tree
from mirrax.values.layouts import Joined, ShapeDtype, ShapesOnReplicas
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import leave_to_python, merge
from mirrax.variables.sharded_variable import from_stored, to_stored

if TYPE_CHECKING:
    from mirrax.run.compiled.workers import worker_agreement
else:
    worker_agreement = LazyModule("mirrax.run.compiled.workers.worker_agreement")


def run_traced(call: ReplicaCall) -> Tree:
    """Returns the results of a function on all replicas, in the current trace."""
    overlay = stack.overlay()
    overlay.note_run(call.strategy)
    leaves, structure = trees.flatten((call.args, call.kwargs))
    arguments = [traced_argument(leaf, call.topology) for leaf in leaves]
    given = CallArguments(arguments, structure)
    # Parts are each worker's own anyway.
    constants = [
        each.value
        for each in given.inputs
        if each.placement is PLAIN and not isinstance(each.value, jax.core.Tracer)
    ]
    what = "arguments of a function"
    if any(worker_exchange.differing(call.topology, what, constants)):
        # Constants of the trace that differ between workers.
        leave_to_python()
    mapped = trace_replica(call, given)
    held = [overlay.read(variable) for variable in mapped.reads]
    # As a jit, because a tape cannot record a `shard_map` itself.
    outputs = jax.jit(mapped.evaluate)(given.arrays, held)
    count = len(mapped.writes)
    for variable, value in zip(mapped.writes, outputs[:count], strict=True):
        overlay.write(variable, value)
    pairs = zip(mapped.result.of_outputs, outputs[count:], strict=True)
    results = [
        PerReplica(Joined(value, placement.is_scalar, call.topology))
        if placement.is_split
        else Mirrored(value)
        for placement, value in pairs
    ]
    return mapped.result.filled(results)


@dataclasses.dataclass(frozen=True)
class MappedTrace(Traced):
    """What one replica does, to be mapped over all of them.

    Args:
        placements: How the arguments lie on the devices.
        updates: Which new values of mirrored variables replicas may compute in parts.
    """

    topology: Topology
    placements: Sequence[Placement]
    updates: Sequence[bool]

    @property
    @override
    def forwarded(self) -> set[Any]:
        return set()  # `shard_map` returns new arrays.

    @override
    def evaluate(self, arguments: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        mapped = _map_over_replicas(self)
        held = map(to_stored, self.reads, variables)
        outputs = mapped(list(self.closed.consts), [*arguments, *held])
        count = len(self.writes)
        return [*map(from_stored, self.writes, outputs[:count]), *outputs[count:]]


def trace_replica(call: ReplicaCall, given: CallArguments) -> MappedTrace:
    """Returns what a replica does with such arguments."""
    topology, placements = call.topology, given.placements
    traced, shapes = _trace_each(call, given)
    try:
        varying = _varying_outputs(traced, placements)
    except VaryingError:
        if not any(placement.shapes for placement in placements):
            raise
        # Each trace alone is right, so the eager engine compares the values.
        raise NotTraceable from None
    inputs = zip(placements, traced.jaxpr.invars, strict=False)
    sharded = {kind_of(var): p.layout for p, var in inputs if p.layout is not None}
    kinds = [kind_of(atom) for atom in traced.jaxpr.outvars]
    count = len(traced.writes)
    results = [
        Placement("joined", topology, kind[0] == (), shapes=each)
        if varies or each
        # Like a sharded argument of the same kind.
        else Placement("mirrored", layout=sharded.get(kind))
        for kind, varies, each in zip(
            kinds[count:], varying[count:], shapes[count:], strict=True
        )
    ]
    updates = [
        may_divide_update(variable, kind, call.collective)
        for variable, kind in zip(traced.writes, kinds, strict=False)
    ]
    return MappedTrace(
        traced.closed,
        traced.reads,
        traced.writes,
        traced.result.placed(results),
        {topology},
        topology,
        placements,
        updates,
    )


_Shapes = tuple[ShapeDtype, ...] | None
"""Shape and dtype of an output on each replica; None if they are equal."""


def _trace_each(
    call: ReplicaCall, given: CallArguments
) -> tuple[Traced, Sequence[_Shapes]]:
    """Returns a trace for all replicas, and the shapes of its outputs.

    With parts of different shapes, it is merged of a trace for each shape.
    """
    uneven = [placement.shapes for placement in given.placements if placement.shapes]
    rows = differing_rows([shape for shape, _ in shapes] for shapes in uneven)
    call = dataclasses.replace(call, traced_rows=rows)
    kinds = list(zip(*uneven, strict=True)) or [()] * call.topology.num_replicas
    trace_of = [list(dict.fromkeys(kinds)).index(kind) for kind in kinds]

    def trace_kind(index: int, shapes: ShapesOnReplicas) -> Traced:
        def body(*values: Any) -> tuple[Sequence[jax.Array], Results]:
            args, kwargs = trees.map_leaves(same_object, given.filled(values))
            return split_results_of_replica(call_in_replica(call, args, kwargs, shapes))

        own = iter(kinds[trace_of.index(index)])
        stand_ins = []
        for placement, whole in zip(given.placements, given.stand_ins, strict=True):
            stand_in = placement.of_replica(whole)
            if placement.shapes:
                stand_in = jax.ShapeDtypeStruct(next(own)[0], stand_in.dtype)
            stand_ins.append(stand_in)
        axis_env = [(AXIS, call.topology.num_replicas)]
        return trace(body, stand_ins, inside_replica=True, axis_env=axis_env)

    traces = [
        worker_agreement.with_per_replica_constants(traced, call.topology)
        for traced in traced_with_shapes(trace_kind, trace_of)
    ]
    for traced in traces:
        if any(map(is_reference, traced.jaxpr.constvars)):
            raise TypeError(
                "Replicas cannot share a `jax.Ref`. Received: one that was created "
                "outside of the function. Create it inside, or use a "
                "`mirrax.Variable`."
            )
        if len(traces) > 1:
            _varying_outputs(traced, given.placements)  # Refuses what is wrong alone.
    if any(_interface_of(traced) != _interface_of(traces[0]) for traced in traces):
        raise NotTraceable
    closed = merged([traced.closed for traced in traces], trace_of)
    own = [traces[trace_of[replica]] for replica in call.topology.local_replicas]
    rest = [merge(leaves) for leaves in zip(*(t.result.rest for t in own), strict=True)]
    result = dataclasses.replace(traces[0].result, rest=rest)
    columns = [
        tuple(shape_dtype_of(column[index]) for index in trace_of)
        for column in zip(*(traced.closed.out_avals for traced in traces), strict=True)
    ]
    shapes = [column if len(set(column)) > 1 else None for column in columns]
    return dataclasses.replace(traces[0], closed=closed, result=result), shapes


def _interface_of(traced: Traced) -> Any:
    """Returns what must be equal on all replicas: variables and result structure."""
    variables = (*traced.reads, None, *traced.writes)
    results = traced.result
    return results.structure, results.placements, [id(each) for each in variables]


def _varying_outputs(traced: Traced, placements: Sequence[Placement]) -> list[bool]:
    """Returns which outputs of a replica's program vary; raises for refused writes."""
    given = [*placements, *map(placement_of_variable, traced.reads)]
    varying = find_varying(traced.jaxpr, [placement.is_split for placement in given])
    refuse_varying_writes(traced.writes, varying)
    return varying


def _map_over_replicas(traced: MappedTrace) -> Callable[..., Any]:
    """Returns the traced work of one replica as a function over all of them."""
    given = [*traced.placements, *map(placement_of_variable, traced.reads)]
    results = traced.result.of_outputs
    made = [*map(placement_of_variable, traced.writes), *results]
    local_shapes = [kind_of(var)[0] for var in traced.jaxpr.invars]
    arguments = zip(traced.placements, local_shapes, strict=False)
    names = (
        [
            *(f"an argument of shape {shape}" for _, shape in arguments),
            *(repr(variable.name) for variable in traced.reads),
        ],
        [
            *(repr(variable.name) for variable in traced.writes),
            *("a result" for _ in results),
        ],
    )

    def one_replica(consts: list[Any], values: list[Any]) -> list[Any]:
        outputs = evaluate_in_parts(
            ClosedJaxpr(traced.jaxpr, consts),
            [
                value.reshape(shape) if placement.is_split else value
                for value, shape, placement in zip(
                    values, local_shapes, given, strict=True
                )
            ],
            [placement.layout for placement in given],
            [placement.is_split for placement in given],
            [placement.layout for placement in made],
            [*traced.updates, *(False for _ in results)],
            traced.topology.num_replicas,
            names,
        )
        return [
            jnp.atleast_1d(value) if placement.is_split else value
            for value, placement in zip(outputs, made, strict=True)
        ]

    whole = [PartitionSpec()] * len(traced.closed.consts)
    return jax.shard_map(
        one_replica,
        mesh=traced.topology.mesh,
        in_specs=(whole, [placement.spec for placement in given]),
        out_specs=[placement.spec for placement in made],
        check_vma=False,
    )
