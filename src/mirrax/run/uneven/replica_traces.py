"""Traces each replica of a `run` on its own, for a program of its own."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    all_equations,
    bind,
    inner_jaxprs,
    map_programs,
    retraced,
)
from mirrax.collectives import spmd
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import AXIS, Topology
from mirrax.run.compiled.arguments import CallArguments
from mirrax.run.compiled.callbacks import Failures, catch_failures, has_callbacks
from mirrax.run.compiled.results import Results, split_results_of_replica
from mirrax.run.compiled.spmd_communicator import SpmdCommunicator, call_in_replica
from mirrax.run.compiled.tracing import Traced, trace
from mirrax.run.replica_context import ReplicaCall


def trace_replicas(
    call: ReplicaCall, given: Sequence[CallArguments], failures: Failures
) -> list[Traced]:
    """Returns the trace of each local replica; raises if they differ in variables.

    What follows an `all_gather` depends on the sizes of the parts on all replicas. A
    trace that reaches one of unknown sizes is abandoned, and restarted once every
    replica has reported its own.
    """
    topology = call.topology
    sizes = _GatheredSizes(topology.num_replicas)
    while True:
        traces = []
        for own, number in zip(given, topology.local_replicas, strict=True):
            gather = sizes.seen_by(number) if topology.is_local else spmd.all_gather
            with contextlib.suppress(_UnknownSizes):
                traces.append(_trace_replica(call, own, number, gather, failures))
        if len(traces) == len(given):
            break
        if traces or not sizes.learn():
            # Some replicas do not call it: the eager engine says which.
            raise NotTraceable
    if any(_shape(traced) != _shape(traces[0]) for traced in traces):
        raise NotTraceable
    return traces


def _shape(traced: Traced) -> Any:
    """Returns what must be equal on all replicas: variables and result structure."""
    results: Results = traced.result
    variables = (*traced.reads, None, *traced.writes)
    return results.structure, results.placements, [id(each) for each in variables]


_Gather = Callable[[list[jax.Array], int], list[jax.Array]]


def _trace_replica(
    call: ReplicaCall,
    own: CallArguments,
    number: int,
    gather: _Gather,
    failures: Failures,
) -> Traced:
    topology = call.topology

    def body(*values: Any) -> tuple[Sequence[jax.Array], Any]:
        args, kwargs = own.filled(values)
        communicator = SpmdCommunicator(call.strategy, call.collective, number, gather)
        return split_results_of_replica(
            call_in_replica(call, args, kwargs, communicator)
        )

    axis_env = [(AXIS, topology.num_replicas)]
    traced = trace(body, own.stand_ins, inside_replica=True, axis_env=axis_env)
    closed = _with_replica_number(traced.closed, number, topology)
    if topology.is_local and has_callbacks(closed.jaxpr):
        closed = catch_failures(closed, failures)
    return dataclasses.replace(traced, closed=closed)


class _UnknownSizes(Exception):  # noqa: N818 - a signal
    """A trace was abandoned, because the sizes on other replicas are not known yet."""


class _GatheredSizes:
    """The sizes of the parts in each `all_gather` of one replica function."""

    def __init__(self, num_replicas: int) -> None:
        self._num_replicas = num_replicas
        # For each call: for each of its values, the size on every replica.
        self._known: list[list[tuple[int, ...]]] = []
        self._reported: dict[int, list[int]] = {}

    def seen_by(self, number: int) -> _Gather:
        """Returns the `all_gather` of replica `number`, for one trace of it."""
        known = iter(self._known)

        def gather(values: list[jax.Array], axis: int) -> list[jax.Array]:
            sizes = next(known, None)
            if sizes is None:
                self._reported[number] = [value.shape[axis] for value in values]
                raise _UnknownSizes
            pairs = zip(values, sizes, strict=True)
            return [spmd.all_gather_uneven(v, axis, column) for v, column in pairs]

        return gather

    def learn(self) -> bool:
        """Stores the reported sizes; returns whether all replicas reported."""
        rows = [self._reported[number] for number in sorted(self._reported)]
        self._reported = {}
        if len(rows) < self._num_replicas or len(set(map(len, rows))) > 1:
            return False
        self._known.append(list(zip(*rows, strict=True)))
        return True


def _with_replica_number(
    closed: ClosedJaxpr, number: int, topology: Topology
) -> ClosedJaxpr:
    """Returns a program with `number` in place of the index along the replicas.

    It runs on one device, where JAX does not know the axis of the replicas.
    """
    if not _has_index(closed.jaxpr):
        return closed

    def inside(inner: ClosedJaxpr) -> ClosedJaxpr:
        return _with_replica_number(inner, number, topology)

    def replaced(eqn: JaxprEqn, inputs: list[Any]) -> list[Any] | None:
        if _is_index(eqn):
            return [np.int32(number)]
        if not any(map(_has_index, inner_jaxprs(eqn))):
            return None
        params = {key: map_programs(value, inside) for key, value in eqn.params.items()}
        return bind(eqn, inputs, params)

    return retraced(closed, replaced, [(AXIS, topology.num_replicas)])


def _has_index(jaxpr: Jaxpr) -> bool:
    return any(map(_is_index, all_equations(jaxpr)))


def _is_index(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "axis_index" and eqn.params["axis_name"] == AXIS
