"""One replica's step as a trace, mapped over all replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from typing_extensions import override

from mirrax import trees
from mirrax._jax.jaxprs import kind_of
from mirrax.collectives import worker_exchange
from mirrax.context import stack
from mirrax.context.guards import MustDrive
from mirrax.devices.topology import AXIS, Topology
from mirrax.lazy_modules import LazyModule
from mirrax.run.compiled.spmd_communicator import call_in_replica
from mirrax.run.compiled.tracing import Traced, refuse_hidden_tracers, trace
from mirrax.run.compiled.varying import find_varying
from mirrax.run.replica_context import ReplicaCall
from mirrax.trees import Tree
from mirrax.values.array_like import as_arrays, is_array_like
from mirrax.values.distributed_values import DistributedValues
from mirrax.values.layouts import Joined, Replicated
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import refuse_captured
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.run.compiled import worker_agreement
else:
    worker_agreement = LazyModule("mirrax.run.compiled.worker_agreement")


def run_traced(call: ReplicaCall) -> Tree:
    """Returns the results of a function on all replicas, in the current trace."""
    overlay = stack.overlay()
    overlay.topologies.add(call.topology)
    leaves, structure = trees.flatten((call.args, call.kwargs))
    inputs = [argument_of(leaf, call.topology) for leaf in leaves]
    given = [item.value for item in inputs if item.is_dynamic]
    constants = [value for value in given if not isinstance(value, jax.core.Tracer)]
    what = "arguments of a function"
    if any(worker_exchange.differing(call.topology, what, constants)):
        # Values from outside the trace that each worker has its own of.
        raise MustDrive
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
        topology: The devices.
        arguments: How the arguments reach the replicas.
        varying: Which results vary between them.
    """

    topology: Topology
    arguments: Sequence[Argument]
    varying: Sequence[bool]

    @property
    def scalars(self) -> list[bool]:
        """Which results are scalars on each replica."""
        outputs = self.jaxpr.outvars[len(self.writes) :]
        return [kind_of(atom)[0] == () for atom in outputs]

    @property
    @override
    def forwarded(self) -> set[Any]:
        return set()  # What is mapped comes out in memory of its own.

    @override
    def evaluate(self, arguments: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        mapped = _map_over_replicas(self)
        inputs = (list(self.closed.consts), list(arguments), list(variables))
        new, results = mapped(*inputs)
        return [*new, *results]


def trace_replica(
    call: ReplicaCall, inputs: Sequence[Argument], structure: Any
) -> MappedTrace:
    """Returns what a replica does with such arguments.

    Args:
        call: The function, and its strategy.
        inputs: The leaves of its arguments.
        structure: How they are nested.
    """
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
    traced = worker_agreement.with_tables(traced, topology)
    varying = find_varying_outputs(traced, [item.is_split for item in dynamic])
    refuse_varying_writes(traced, varying)
    return MappedTrace(
        traced.closed,
        traced.reads,
        traced.writes,
        traced.result,
        topology,
        dynamic,
        varying[len(traced.writes) :],
    )


@dataclasses.dataclass(frozen=True)
class Argument:
    """One leaf of the arguments of a replica function.

    Args:
        value: What is given: a traced array over all replicas, or any other object.
        local: What a replica sees of it, if it is an array.
        is_split: Whether the replicas get different parts.
    """

    value: Any
    local: Any = None
    is_split: bool = False

    @property
    def is_dynamic(self) -> bool:
        return self.local is not None

    @classmethod
    def of_input(cls, described: Any, form: Any) -> Argument:
        """Returns how an input of a program, of this form, reaches the replicas.

        Args:
            described: A number, or the shape and dtype of an array.
            form: How it lies on the devices.
        """
        if form.kind != "joined":
            is_number = not isinstance(described, jax.ShapeDtypeStruct)
            local = stand_in(jnp.asarray(described)) if is_number else described
            return cls(None, local)
        local = _local_kind(described, form.is_scalar, form.is_weak, form.topology)
        return cls(None, local, is_split=True)


def argument_of(leaf: Any, topology: Topology) -> Argument:
    """Returns how `leaf` reaches the replicas."""
    if isinstance(leaf, Variable) or not isinstance(leaf, DistributedValues):
        return _plain_argument(leaf)
    if isinstance(leaf, Mirrored):
        return _plain_argument(leaf.array)
    assert isinstance(leaf, PerReplica)
    refuse_captured(leaf, topology)
    layout = leaf.layout
    if isinstance(layout, Replicated):
        return _plain_argument(layout.array)
    if not isinstance(layout, Joined):
        parts = layout.parts
        if not is_array_like(parts[0]):
            return _require_same(parts)
        if all(part is parts[0] for part in parts):
            return _plain_argument(parts[0])
        layout = join_traced(as_arrays(parts), topology)
    local = _local_kind(layout.array, layout.is_scalar, layout.is_weak, topology)
    return Argument(layout.array, local, is_split=True)


def _local_kind(
    joined: Any, is_scalar: bool, is_weak: bool, topology: Topology
) -> jax.ShapeDtypeStruct:
    """Returns the shape and dtype of one replica's part of a joined array."""
    rows = joined.shape[0] // topology.num_replicas
    shape = () if is_scalar else (rows, *joined.shape[1:])
    return jax.ShapeDtypeStruct(shape, joined.dtype, weak_type=is_weak)


def join_traced(parts: Sequence[jax.Array], topology: Topology) -> Joined:
    """Returns parts that were made inside a trace as one value of it."""
    if any(part.shape != parts[0].shape for part in parts):
        raise MustDrive
    is_scalar = parts[0].ndim == 0
    joined = jnp.stack(parts) if is_scalar else jnp.concatenate(parts)
    return Joined(joined, is_scalar, topology)


def _plain_argument(leaf: Any) -> Argument:
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return Argument(leaf, stand_in(leaf))
    return Argument(leaf)


def stand_in(array: Any) -> jax.ShapeDtypeStruct:
    """Returns a description of an array, to trace with."""
    if isinstance(array, jax.Array):
        weak = bool(array.aval.weak_type)
        return jax.ShapeDtypeStruct(array.shape, array.dtype, weak_type=weak)
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    return jax.ShapeDtypeStruct(array.shape, dtype)


def _require_same(parts: Sequence[Any]) -> Argument:
    if any(part != parts[0] for part in parts):
        raise TypeError(
            "A function that is compiled once for all replicas can be given different "
            "numbers and arrays on each, but no other objects. Received: "
            f"{parts!r}. Use arrays, or call `strategy.run` with a plain function."
        )
    return Argument(parts[0])


def find_varying_outputs(traced: Traced, is_split: Sequence[bool]) -> list[bool]:
    """Returns which outputs of a replica's program vary between replicas."""
    is_own = [isinstance(variable, SyncOnReadVariable) for variable in traced.reads]
    return find_varying(traced.jaxpr, [*is_split, *is_own])


def refuse_varying_writes(traced: Traced, varying: Sequence[bool]) -> None:
    """Raises if replicas would assign different values to a variable they share."""
    for variable, varies in zip(traced.writes, varying, strict=False):
        if varies and not isinstance(variable, SyncOnReadVariable):
            raise ValueError(
                f"Variable '{variable.name}' must be assigned the same value by every "
                "replica. Received: a value that differs between replicas. Combine it "
                "first (`get_replica_context().all_reduce`), or create the variable "
                "with an `aggregation` (SUM, MEAN, ONLY_FIRST_REPLICA) or with "
                "`synchronization=ON_READ`."
            )


def _map_over_replicas(traced: MappedTrace) -> Callable[..., Any]:
    """Returns the traced work of one replica as a function over all of them."""
    whole, split = PartitionSpec(), PartitionSpec(AXIS)
    is_own = [isinstance(variable, SyncOnReadVariable) for variable in traced.reads]
    is_own_new = [
        isinstance(variable, SyncOnReadVariable) for variable in traced.writes
    ]

    def one_replica(
        consts: list[Any], values: list[Any], held: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        arguments = [
            value.reshape(item.local.shape) if item.is_split else value
            for value, item in zip(values, traced.arguments, strict=True)
        ]
        variables = [
            value.reshape(variable.shape) if own else value
            for value, own, variable in zip(held, is_own, traced.reads, strict=True)
        ]
        outputs = jax.core.eval_jaxpr(traced.jaxpr, consts, *arguments, *variables)
        count = len(traced.writes)
        flags = [*is_own_new, *traced.varying]
        outputs = [
            jnp.atleast_1d(value) if flag else value
            for value, flag in zip(outputs, flags, strict=True)
        ]
        return outputs[:count], outputs[count:]

    return jax.shard_map(
        one_replica,
        mesh=traced.topology.mesh,
        in_specs=(
            [whole] * len(traced.closed.consts),
            [split if item.is_split else whole for item in traced.arguments],
            [split if own else whole for own in is_own],
        ),
        out_specs=(
            [split if own else whole for own in is_own_new],
            [split if varies else whole for varies in traced.varying],
        ),
        check_vma=False,
    )


def _wrap(value: jax.Array, varies: bool, is_scalar: bool, topology: Topology) -> Any:
    if varies:
        return PerReplica(Joined(value, is_scalar, topology))
    return Mirrored(value)


def split_result(result: Tree) -> tuple[list[jax.Array], Any]:
    """Returns the arrays in a result, and what is needed to put it together again."""
    leaves, structure = trees.flatten(result)
    leaves = [x.array if isinstance(x, Mirrored) else x for x in leaves]
    is_array = [isinstance(x, jax.Array | np.ndarray | np.generic) for x in leaves]
    arrays = as_arrays([x for x, flag in zip(leaves, is_array, strict=True) if flag])
    rest = [None if flag else x for x, flag in zip(leaves, is_array, strict=True)]
    for leaf in rest:
        refuse_hidden_tracers(leaf)
    return arrays, (structure, is_array, rest)


def join_result(result: Any, values: Sequence[Any]) -> Tree:
    """Returns the structure that `split_result` took apart, with these arrays."""
    structure, is_array, rest = result
    given = iter(values)
    return trees.unflatten(
        structure,
        [next(given) if flag else x for flag, x in zip(is_array, rest, strict=True)],
    )
