"""Executes one program per replica, segment by segment, with collectives between."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax

from mirrax._jax.arrays import shards
from mirrax._jax.jaxprs import initial_values, kind_of, read
from mirrax.devices.topology import Topology
from mirrax.run.compiled.callbacks import Failures, refuse_in_callback
from mirrax.run.compiled.tracing import Traced
from mirrax.run.compiled.variable_io import (
    read_and_written,
    read_shared,
    refuse_concurrent_writes,
    replace,
)
from mirrax.run.uneven.segments import Cut, Segment
from mirrax.trees import Tree
from mirrax.values.layouts import join_parts, replicate_parts, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import merge
from mirrax.variables import aliasing
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.foreign_variable import Outdated
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
        inputs = self.traces[0].jaxpr.invars
        of_reads = inputs[len(inputs) - len(reads) :]
        if any(v.shape != kind_of(var)[0] for v, var in zip(reads, of_reads)):
            raise Outdated
        held = read_shared(reads, self.topology)
        given = self._inputs(arrays, held)
        if self.failures is None:
            rows = self._run(given)
        else:
            with aliasing.lock_released():
                rows = jax.block_until_ready(self._run(given))
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

    def _run(self, inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Returns what each replica computes with its program from its inputs."""
        devices = self.topology.local_devices
        programs = [each.closed for each in self.cuts]
        values = list(map(initial_values, programs, inputs))
        for segments in zip(*(each.segments for each in self.cuts), strict=True):
            given = [
                segment.run(own, device)
                for segment, own, device in zip(segments, values, devices, strict=True)
            ]
            if segments[0].collectives:
                made = self._combined(segments[0], given)
                for segment, own, outputs in zip(segments, values, made, strict=True):
                    variables = [v for eqn in segment.collectives for v in eqn.outvars]
                    own.update(zip(variables, outputs, strict=True))
        return [
            [read(own, atom) for atom in program.jaxpr.outvars]
            for program, own in zip(programs, values, strict=True)
        ]

    def _combined(
        self, segment: Segment, given: Sequence[Sequence[Any]]
    ) -> list[list[Any]]:
        """Returns the outputs of collectives on each replica."""
        joined = [join_parts(parts, self.topology) for parts in zip(*given)]
        columns = [shards(output) for output in segment.exchange(*joined)]
        made = [var for eqn in segment.collectives for var in eqn.outvars]
        are_scalars = [kind_of(var)[0] == () for var in made]
        return [
            [
                _as_scalar(column[index]) if is_scalar else column[index]
                for column, is_scalar in zip(columns, are_scalars, strict=True)
            ]
            for index in range(len(given))
        ]

    def _inputs(
        self, arrays: Sequence[Sequence[Any]], held: Sequence[jax.Array]
    ) -> list[list[Any]]:
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
        rest = [merge(parts) for parts in zip(*(t.result.rest for t in self.traces))]
        return dataclasses.replace(self.traces[0].result, rest=rest).filled(results)

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
