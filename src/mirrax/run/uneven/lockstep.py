"""Executes one program per replica, segment by segment, with collectives between."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import zlib
from collections.abc import Sequence
from typing import Any

import jax

from mirrax._jax.arrays import shards
from mirrax._jax.jaxprs import kind_of, source_of
from mirrax.collectives.worker_exchange import exchange
from mirrax.devices.topology import Topology
from mirrax.errors import ReplicaError
from mirrax.run.compiled.callbacks import Failures, refuse_in_callback
from mirrax.run.compiled.tracing import Traced
from mirrax.run.compiled.variable_io import (
    read_and_written,
    read_shared,
    refuse_concurrent_writes,
    replace,
)
from mirrax.run.uneven.replica_steps import steps_of
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

ADVICE = (
    "With parts of different shapes, such as a last partial batch, all replicas must "
    "make the same calls in loops and branches of JAX. Let these not depend on the "
    "size of a part, use `mirrax.scan`, `mirrax.cond`, ... in place of JAX's, or make "
    "the parts equal."
)


@dataclasses.dataclass(frozen=True)
class Lockstep:
    """One program per replica, ready to run.

    Args:
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
        inputs = zip(reads, self.traces[0].variable_inputs, strict=True)
        if any(variable.shape != kind_of(var)[0] for variable, var in inputs):
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
        replicas = [
            steps_of(program, own, device)
            for program, own, device in zip(
                self.cuts, inputs, self.topology.local_devices, strict=True
            )
        ]
        answers: Sequence[Any] = [None] * len(replicas)
        while True:
            asked, results = [], []
            for replica, answer in zip(replicas, answers, strict=True):
                try:
                    asked.append(replica.send(answer))
                except StopIteration as ended:
                    results.append(ended.value)
            if self._can_differ:
                self._require_same([segment for segment, _ in asked])
            if not asked:
                return results
            answers = self._combine(asked)

    @functools.cached_property
    def _can_differ(self) -> bool:
        """Whether replicas may reach different collectives, in loops and branches.

        The others were compared when the programs were built.
        """
        return any(segment.inner for segment in self.cuts[0].segments)

    def _require_same(self, waiting: Sequence[Segment]) -> None:
        """Raises unless all replicas, of all workers, wait in the same collectives."""
        ended = ["no more"] * (len(self.cuts) - len(waiting))
        texts = [*(segment.collectives for segment in waiting), *ended]
        calls = [zlib.crc32(text.encode()) for text in texts]
        if not self.topology.is_local:
            answers = exchange(self.topology, "steps of an uneven program", calls)
            calls = list(itertools.chain.from_iterable(answers))
        if len(set(calls)) > 1:
            first = [segment.joint_eqns[0] for segment in waiting]
            places = {f"{eqn.primitive.name} at {source_of(eqn)}" for eqn in first}
            shown = " and ".join(sorted(places)) or "a call on another worker"
            raise ReplicaError(
                "All replicas must make the same collective calls. Received: "
                f"{shown}, which not all of them reach. {ADVICE}"
            )

    def _combine(self, asked: Sequence[tuple[Segment, list[Any]]]) -> list[list[Any]]:
        segment, _ = asked[0]
        inputs = zip(*(given for _, given in asked), strict=True)
        joined = [join_parts(parts, self.topology) for parts in inputs]
        columns = [shards(output) for output in segment.exchange(*joined)]
        made = [var for eqn in segment.joint_eqns for var in eqn.outvars]
        are_scalars = [kind_of(var)[0] == () for var in made]
        return [
            [
                _as_scalar(column[index]) if is_scalar else column[index]
                for column, is_scalar in zip(columns, are_scalars, strict=True)
            ]
            for index in range(len(asked))
        ]

    def _inputs(
        self, arrays: Sequence[Sequence[Any]], held: Sequence[jax.Array]
    ) -> list[list[Any]]:
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
        return variable.copies().values  # type: ignore[attr-defined]
    # A Keras variable of no strategy is mirrored once a step has written it.
    if isinstance(variable, DistributedVariable) or len(array.devices()) > 1:
        return shards(array)
    return (array,) * count
