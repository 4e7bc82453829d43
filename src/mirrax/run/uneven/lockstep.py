"""Executes one program per replica, segment by segment, with collectives between."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax

from mirrax._jax.arrays import shards
from mirrax._jax.jaxprs import Values, initial_values, kind_of, read
from mirrax.devices.topology import Topology
from mirrax.run.compiled.callbacks import Failures, refuse_in_callback
from mirrax.run.compiled.mapped_trace import join_result
from mirrax.run.compiled.tracing import Traced
from mirrax.run.compiled.variable_io import (
    read_and_written,
    read_shared,
    refuse_concurrent_writes,
    replace,
)
from mirrax.run.uneven.blocks import ReplicaValues, run_block
from mirrax.run.uneven.segments import Cut, Segment
from mirrax.trees import Tree
from mirrax.values.layouts import join_parts, replicate_parts, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import merge
from mirrax.variables import aliasing
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Lockstep:
    """One program per replica, ready to run.

    Args:
        traces: What each replica does.
        cuts: The same in pieces.
        varying: Which results differ between replicas.
        failures: What callbacks raise; None if there are none.
    """

    topology: Topology
    traces: tuple[Traced, ...]
    cuts: tuple[Cut, ...]
    varying: tuple[bool, ...]
    failures: Failures | None = None

    def __call__(self, arrays: Sequence[Sequence[Any]]) -> Tree:
        if self.failures is None:
            with aliasing.lock:
                return self._call_locked(arrays)
        refuse_in_callback()
        with aliasing.callback_lock, aliasing.lock:
            return self._call_locked(arrays)

    def _call_locked(self, arrays: Sequence[Sequence[Any]]) -> Tree:
        reads, writes = self.traces[0].reads, self.traces[0].writes
        count = len(writes)
        held = read_shared(reads, self.topology)
        inputs = self._inputs(arrays, held)
        if self.failures is None:
            rows = self._run(self.cuts, inputs)
        else:
            with aliasing.lock_released():
                rows = jax.block_until_ready(self._run(self.cuts, inputs))
                self.failures.raise_first()
            refuse_concurrent_writes(reads, held, read_and_written(self.traces[0]))
        columns = list(zip(*rows, strict=True))
        replace(
            writes,
            [
                self._stored(variable, parts)
                for variable, parts in zip(writes, columns[:count], strict=True)
            ],
        )
        return self._wrap_results(columns[count:])

    def _run(self, cuts: Sequence[Cut], inputs: ReplicaValues) -> ReplicaValues:
        """Returns what each replica computes with its program from its inputs."""
        states = [
            initial_values(piece.closed, own)
            for piece, own in zip(cuts, inputs, strict=True)
        ]
        for segments in zip(*(piece.segments for piece in cuts), strict=True):
            self._advance(segments, states)
        return [
            [read(values, atom) for atom in piece.closed.jaxpr.outvars]
            for piece, values in zip(cuts, states, strict=True)
        ]

    def _advance(self, segments: Sequence[Segment], states: Sequence[Values]) -> None:
        """Runs a segment on each replica, and what is after it on all together."""
        for segment, values, device in zip(
            segments, states, self.topology.local_devices, strict=True
        ):
            if segment.run is not None:
                with jax.default_device(device):
                    outputs = segment.run(*(read(values, v) for v in segment.inputs))
                values.update(zip(segment.outputs, outputs, strict=True))
        first = segments[0]
        if not first.joint_eqns:
            return
        inputs = [
            [read(values, atom) for eqn in segment.joint_eqns for atom in eqn.invars]
            for segment, values in zip(segments, states, strict=True)
        ]
        run = self._run_block if first.inner else self._run_collectives
        rows = run(segments, inputs)
        for segment, values, row in zip(segments, states, rows, strict=True):
            made = [var for eqn in segment.joint_eqns for var in eqn.outvars]
            values.update(zip(made, row, strict=True))

    def _run_collectives(
        self, segments: Sequence[Segment], inputs: ReplicaValues
    ) -> ReplicaValues:
        joined = [
            join_parts(tuple(parts), self.topology)
            for parts in zip(*inputs, strict=True)
        ]
        columns = [shards(output) for output in segments[0].exchange(*joined)]
        made = [var for eqn in segments[0].joint_eqns for var in eqn.outvars]
        are_scalars = [kind_of(var)[0] == () for var in made]
        return [
            [
                _as_scalar(column[index]) if is_scalar else column[index]
                for column, is_scalar in zip(columns, are_scalars, strict=True)
            ]
            for index in range(len(segments))
        ]

    def _run_block(
        self, segments: Sequence[Segment], inputs: ReplicaValues
    ) -> ReplicaValues:
        def run(number: int, rows: ReplicaValues) -> ReplicaValues:
            return self._run([segment.inner[number] for segment in segments], rows)

        blocks = [segment.joint_eqns[0] for segment in segments]
        return run_block(blocks, inputs, run, self.topology.local_devices)

    def _inputs(
        self, arrays: Sequence[Sequence[Any]], held: Sequence[jax.Array]
    ) -> ReplicaValues:
        """Returns the arguments and the parts of variables of each replica."""
        devices = self.topology.local_devices
        parts_of_held = [
            _parts(variable, array, len(devices))
            for variable, array in zip(self.traces[0].reads, held, strict=True)
        ]
        return [
            [
                *(to_device(array, device) for array in own),
                *(parts[index] for parts in parts_of_held),
            ]
            for index, (own, device) in enumerate(zip(arrays, devices, strict=True))
        ]

    def _wrap_results(self, columns: Sequence[tuple[Any, ...]]) -> Tree:
        """Returns what the user gets."""
        results = [
            PerReplica(self._on_devices(parts))
            if varies
            else replicate_parts(parts, self.topology)
            for parts, varies in zip(columns, self.varying, strict=True)
        ]
        structure, is_array, _ = self.traces[0].result
        rest = [merge(parts) for parts in zip(*(t.result[2] for t in self.traces))]
        return join_result((structure, is_array, rest), results)

    def _stored(self, variable: Variable, parts: Sequence[Any]) -> jax.Array:
        if isinstance(variable, SyncOnReadVariable):
            return join_parts(tuple(parts), self.topology)
        whole = replicate_parts(parts, self.topology)
        layout = variable.layout
        return whole if layout is None else layout.store(whole, self.topology)

    def _on_devices(self, parts: Sequence[Any]) -> tuple[jax.Array, ...]:
        """Returns each replica's part on its device; constants are not there yet."""
        return tuple(
            to_device(part, device)
            for part, device in zip(parts, self.topology.local_devices, strict=True)
        )


@jax.jit
def _as_scalar(vector: jax.Array) -> jax.Array:
    return vector.reshape(())


def _parts(variable: Variable, array: jax.Array, count: int) -> Sequence[jax.Array]:
    """Returns what each local replica reads of a variable with this array."""
    is_sharded = variable.layout is not None
    if isinstance(variable, SyncOnReadVariable) or is_sharded:
        return variable.copies().values  # type: ignore[attr-defined, no-any-return]
    if isinstance(variable, DistributedVariable):
        return shards(array)
    return (array,) * count
