"""One replica's step as a trace, mapped over all replicas."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from typing_extensions import override

from mirrax import trees
from mirrax._jax.jaxprs import ClosedJaxpr, is_reference, kind_of
from mirrax.collectives import worker_exchange
from mirrax.collectives.reduce import Collective
from mirrax.collectives.shard_layout import ShardLayout, matching_layouts
from mirrax.context import stack
from mirrax.devices.topology import AXIS, Topology
from mirrax.lazy_modules import LazyModule
from mirrax.run.compiled.replica_arguments import Argument, argument_of
from mirrax.run.compiled.spmd_communicator import call_in_replica
from mirrax.run.compiled.tracing import Traced, refuse_hidden_tracers, trace
from mirrax.run.replica_context import ReplicaCall
from mirrax.run.sharded.evaluation import evaluate_in_parts
from mirrax.run.varying import find_varying, refuse_varying_writes
from mirrax.trees import Tree
from mirrax.values.array_like import as_arrays, is_array
from mirrax.values.layouts import Joined
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import leave_to_python
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.sharded_variable import from_stored, layout_of, to_stored
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.run.compiled.workers import worker_agreement
else:
    worker_agreement = LazyModule("mirrax.run.compiled.workers.worker_agreement")


def run_traced(call: ReplicaCall) -> Tree:
    """Returns the results of a function on all replicas, in the current trace."""
    overlay = stack.overlay()
    overlay.note_run(call.strategy)
    leaves, structure = trees.flatten((call.args, call.kwargs))
    inputs = [argument_of(leaf, call.topology) for leaf in leaves]
    given = [item.value for item in inputs if item.is_dynamic]
    # Those that are split are each worker's own anyway.
    constants = [item.value for item in inputs if item.is_dynamic and not item.is_split]
    constants = [x for x in constants if not isinstance(x, jax.core.Tracer)]
    what = "arguments of a function"
    if any(worker_exchange.differing(call.topology, what, constants)):
        # Constants of the trace that differ between workers.
        leave_to_python()
    mapped = trace_replica(call, inputs, structure)
    held = [overlay.read(variable) for variable in mapped.reads]
    outputs = mapped.evaluate(given, held)
    count = len(mapped.writes)
    for variable, value in zip(mapped.writes, outputs[:count], strict=True):
        overlay.write(variable, value)
    wrapped = [
        _wrap(value, varies, is_scalar, call.topology)
        for value, varies, is_scalar in zip(
            outputs[count:], mapped.varying, mapped.scalars, strict=True
        )
    ]
    return join_result(mapped.result, wrapped)


@dataclasses.dataclass(frozen=True)
class MappedTrace(Traced):
    """What one replica does, to be mapped over all of them.

    Args:
        arguments: How the arguments reach the replicas.
        varying: Which results vary between them.
        layouts: How sharded results are cut; None for others.
        updates: Which new values of mirrored variables replicas may compute in parts.
    """

    topology: Topology
    arguments: Sequence[Argument]
    varying: Sequence[bool]
    layouts: Sequence[ShardLayout | None]
    updates: Sequence[bool]

    @property
    def scalars(self) -> list[bool]:
        """Which results are scalars on each replica."""
        outputs = self.jaxpr.outvars[len(self.writes) :]
        return [kind_of(atom)[0] == () for atom in outputs]

    @property
    @override
    def forwarded(self) -> set[Any]:
        return set()  # `shard_map` returns new arrays.

    @override
    def evaluate(self, arguments: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        mapped = _map_over_replicas(self)
        held = map(to_stored, self.reads, variables)
        new, results = mapped(list(self.closed.consts), list(arguments), list(held))
        return [*map(from_stored, self.writes, new), *results]


def trace_replica(
    call: ReplicaCall, inputs: Sequence[Argument], structure: Any
) -> MappedTrace:
    """Returns what a replica does with such arguments."""
    topology = call.topology
    dynamic = [item for item in inputs if item.is_dynamic]

    def body(*values: Any) -> tuple[Sequence[jax.Array], Any]:
        given = iter(values)
        filled = [next(given) if item.is_dynamic else item.value for item in inputs]
        args, kwargs = trees.unflatten(structure, filled)
        return split_result(call_in_replica(call, args, kwargs))

    traced = trace(
        body,
        [item.local for item in dynamic],
        inside_replica=True,
        axis_env=[(AXIS, topology.num_replicas)],
    )
    if any(map(is_reference, traced.jaxpr.constvars)):
        raise TypeError(
            "Replicas cannot share a `jax.Ref`. Received: one from outside of the "
            f"function {call.fn!r}. Use a `mirrax.Variable`."
        )
    traced = worker_agreement.with_per_replica_constants(traced, topology)
    varying = find_varying_outputs(traced, [item.is_split for item in dynamic])
    refuse_varying_writes(traced.writes, varying)
    results = zip(traced.jaxpr.outvars, varying, strict=True)
    kinds = [None if varies else kind_of(atom) for atom, varies in results]
    sharded = [(x.layout, x.local.dtype) for x in dynamic if x.layout is not None]
    return MappedTrace(
        traced.closed,
        traced.reads,
        traced.writes,
        traced.result,
        topology,
        dynamic,
        varying[len(traced.writes) :],
        matching_layouts(sharded, kinds[len(traced.writes) :]),
        [_is_divided(*pair, call.collective) for pair in zip(traced.writes, kinds)],
    )


def _is_divided(variable: Variable, kind: Any, collective: Collective) -> bool:
    """Returns whether replicas may divide the update of a variable among them."""
    is_mirrored = isinstance(variable, MirroredVariable) and not layout_of(variable)
    if collective.update_bytes is None or not is_mirrored:
        return False
    shape, dtype = kind
    is_large = math.prod(shape) * dtype.itemsize >= collective.update_bytes
    return is_large and bool(ShardLayout.of(shape, collective.topology.num_replicas))


def find_varying_outputs(traced: Traced, is_split: Sequence[bool]) -> list[bool]:
    """Returns which outputs of a replica's program vary between replicas."""
    return find_varying(traced.jaxpr, [*is_split, *_are_varying(traced.reads)])


def _are_varying(variables: Sequence[Variable]) -> list[bool]:
    return [isinstance(variable, SyncOnReadVariable) for variable in variables]


def _map_over_replicas(traced: MappedTrace) -> Callable[..., Any]:
    """Returns the traced work of one replica as a function over all of them."""
    varying_reads = _are_varying(traced.reads)
    varying_writes = _are_varying(traced.writes)
    count = len(traced.writes)
    argument_cuts = [item.layout for item in traced.arguments]
    cuts = [layout_of(variable) for variable in traced.reads]
    new_cuts = [layout_of(variable) for variable in traced.writes]
    is_split = [item.is_split for item in traced.arguments]
    names = (
        [
            *(f"an argument of shape {item.local.shape}" for item in traced.arguments),
            *(repr(variable.name) for variable in traced.reads),
        ],
        [
            *(repr(variable.name) for variable in traced.writes),
            *("a result" for _ in traced.layouts),
        ],
    )

    def one_replica(
        consts: list[Any], values: list[Any], held: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        arguments = [
            value.reshape(item.local.shape) if item.is_split else value
            for value, item in zip(values, traced.arguments, strict=True)
        ]
        variables = [
            value.reshape(variable.shape) if varies else value
            for value, varies, variable in zip(
                held, varying_reads, traced.reads, strict=True
            )
        ]
        outputs = evaluate_in_parts(
            ClosedJaxpr(traced.jaxpr, consts),
            [*arguments, *variables],
            [*argument_cuts, *cuts],
            [*is_split, *varying_reads],
            [*new_cuts, *traced.layouts],
            [*traced.updates, *(False for _ in traced.layouts)],
            traced.topology.num_replicas,
            names,
        )
        flags = [*varying_writes, *traced.varying]
        outputs = [
            jnp.atleast_1d(value) if flag else value
            for value, flag in zip(outputs, flags, strict=True)
        ]
        return outputs[:count], outputs[count:]

    return jax.shard_map(
        one_replica,
        mesh=traced.topology.mesh,
        in_specs=(
            [PartitionSpec()] * len(traced.closed.consts),
            list(map(_spec, is_split, argument_cuts)),
            list(map(_spec, varying_reads, cuts)),
        ),
        out_specs=(
            list(map(_spec, varying_writes, new_cuts)),
            list(map(_spec, traced.varying, traced.layouts)),
        ),
        check_vma=False,
    )


def _spec(is_split: bool, layout: ShardLayout | None) -> PartitionSpec:
    """Returns how an input or output of all replicas is divided among them."""
    if layout is not None:
        return layout.spec
    return PartitionSpec(AXIS) if is_split else PartitionSpec()


def _wrap(value: jax.Array, varies: bool, is_scalar: bool, topology: Topology) -> Any:
    if varies:
        return PerReplica(Joined(value, is_scalar, topology))
    return Mirrored(value)


def split_result(result: Tree) -> tuple[list[jax.Array], Any]:
    """Returns the arrays in a result, and what is needed to put it together again."""
    leaves, structure = trees.flatten(result)
    leaves = [x.array if isinstance(x, Mirrored) else x for x in leaves]
    flags = [is_array(x) for x in leaves]
    arrays = as_arrays([x for x in leaves if is_array(x)])
    rest = [None if is_array(x) else x for x in leaves]
    for leaf in rest:
        refuse_hidden_tracers(leaf)
    return arrays, (structure, flags, rest)


def join_result(result: Any, values: Sequence[Any]) -> Tree:
    """Returns the structure that `split_result` took apart, with these arrays."""
    structure, flags, rest = result
    given = iter(values)
    return trees.unflatten(
        structure,
        [next(given) if flag else x for flag, x in zip(flags, rest, strict=True)],
    )
