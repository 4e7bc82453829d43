"""A compiled function with its variables: what a call runs."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from mirrax._jax.config import checks_results, is_jit_disabled
from mirrax.collectives.worker_guard import guarded
from mirrax.devices.topology import Topology
from mirrax.lazy_modules import LazyModule
from mirrax.run.compiled import variable_io
from mirrax.run.compiled.arguments import jit_key, refuse_foreign_parts
from mirrax.run.compiled.callbacks import (
    Failures,
    catch_failures,
    has_callbacks,
    refuse_in_callback,
)
from mirrax.run.compiled.donated_arguments import copy_shared, refuse_donated
from mirrax.run.compiled.memory_report import (
    ProgramMemory,
    described,
    memory_of,
)
from mirrax.run.compiled.placement import (
    Placement,
    only_topology,
)
from mirrax.run.compiled.program_jit import compiled
from mirrax.run.compiled.tracing import Traced
from mirrax.run.compiled.variable_io import VariableIO
from mirrax.run.compiled.workers.worker_arguments import with_local_inputs
from mirrax.trees import Tree
from mirrax.variables import aliasing
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.foreign_variable import ForeignVariable
from mirrax.variables.out_of_memory import (
    LESS_TEMPORARY,
    SHARD,
    SHARD_STATE,
    advise,
)
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.run.compiled.workers import worker_agreement
else:
    worker_agreement = LazyModule("mirrax.run.compiled.workers.worker_agreement")


# How many combinations of input shardings a program remembers.
_MAX_KNOWN_INPUTS = 16


class Program:
    """A function compiled for arguments of one kind, with variables in and out.

    Args:
        traced: What `trace_program` returned for such arguments.
        placements: How the arguments lie on the devices.
        donated: Which of them may be overwritten.
        is_run: Whether the body is a `run`, whose arguments workers have compared.
    """

    def __init__(
        self,
        traced: Traced,
        placements: Sequence[Placement],
        donated: Sequence[bool],
        name: str,
        is_run: bool = False,
    ) -> None:
        topology = _topology_of(traced, placements)
        many = None if topology is None or topology.is_single else topology
        self._name = name
        self._is_over_many = many is not None
        # Errors in other processes are not known here.
        self._is_local = topology is None or topology.is_local
        self._calls_back = has_callbacks(traced.jaxpr)
        self._can_raise = self._calls_back or checks_results()
        self._failures = Failures()
        self._variable_io = VariableIO(traced, many, not self._can_raise)
        self._lock: contextlib.AbstractContextManager[Any] = aliasing.lock
        if self._calls_back:
            # Takes `aliasing.lock` itself, and releases it while callbacks run.
            writes = bool(self._variable_io.written)
            self._lock = aliasing.callback_lock if writes else contextlib.nullcontext()
        if self._calls_back and self._is_local:
            closed = catch_failures(traced.closed, self._failures)
            traced = dataclasses.replace(traced, closed=closed)
        self._placements = placements
        self._donated_arguments = [i for i, flag in enumerate(donated) if flag]
        self._kept_arguments = [i for i, flag in enumerate(donated) if not flag]
        # Per-replica arguments have the right sharding already.
        self._unplaced = [
            number
            for number, index in enumerate(self._kept_arguments)
            if placements[index].topology is None
        ]
        self._num_results = len(traced.result.of_outputs)
        self._build_result = traced.result.builder(self._is_over_many)
        self._jitted = self._run = compiled(
            traced, self._variable_io, many, placements, self._donated_arguments
        )
        has_local_inputs = False
        if not self._is_local and topology is not None:
            mark = worker_agreement.require_same_program(traced.closed, topology)
            self._run = guarded(topology, f"{name} {mark}", self._run)
            has_local_inputs = self._variable_io.reads_plain or any(
                placement.kind == "plain" for placement in placements
            )
            if has_local_inputs:
                # The arguments of a `run` were compared before.
                self._run = with_local_inputs(self._run, topology, not is_run)
        is_single = topology is not None and topology.is_single
        self._device = topology.devices[0] if is_single and topology else None
        # Without jit, an argument can be the array that a variable stores.
        self._is_unjitted = is_jit_disabled()
        self._first_inputs: Any = None
        self._known_inputs: list[Any] = []
        # Whether a call has no variables to handle and nothing to check.
        self._is_pure = (
            not (traced.reads or traced.writes or self._can_raise)
            and self._device is None
        )
        # Whether a call only exchanges the arrays of variables.
        self._is_simple = (
            self._variable_io.are_simple
            and not has_local_inputs
            and self._device is None
            and not self._is_unjitted
            and not self._donated_arguments
            and not self._unplaced
        )

    @property
    def can_be_outdated(self) -> bool:
        """Whether variables may change their shapes, which makes it invalid."""
        return self._variable_io.has_foreign

    def analyzed(self) -> tuple[ProgramMemory, Any] | None:
        """Returns its memory and what XLA compiled; None before the first call."""
        if self._first_inputs is None:
            return None
        compiled = self._jitted.lower(*self._first_inputs).compile()
        variables = [*self._variable_io.changed, *self._variable_io.read_only]
        with aliasing.lock:
            weights = [v.stored for v in variables if v.trainable]
            state = [v.stored for v in variables if not v.trainable]
            return memory_of(self._name, compiled, weights, state), compiled

    def __call__(self, arrays: list[Any]) -> Tree:
        """Runs the program on the dynamic arguments; returns what the user gets."""
        if arrays:
            refuse_donated(arrays)
        if self._calls_back:
            refuse_in_callback()
        with self._lock:
            results: Sequence[jax.Array] | None = None
            try:
                was_run = self._known_inputs if self._is_local else self._first_inputs
                if self._is_simple and was_run:
                    results = self._variable_io.exchange(self._run, arrays)
                if results is None:
                    with aliasing.lock:
                        results = self._call_locked(arrays)
            except Exception as error:
                if self._is_over_many:
                    pairs = zip(arrays, self._placements, strict=True)
                    plain = [array for array, place in pairs if place.kind == "plain"]
                    refuse_foreign_parts(plain, error)
                donated = [arrays[i] for i in self._donated_arguments]
                explain(error, self._variable_io.changed, donated)
                raise
        return self._build_result(results)

    def _call_locked(self, arrays: list[Any]) -> Sequence[jax.Array]:
        donated, kept = [], arrays
        if self._donated_arguments:
            # In C: it is part of every step of functions that take and return state.
            donated = list(map(arrays.__getitem__, self._donated_arguments))
            kept = list(map(arrays.__getitem__, self._kept_arguments))
            donated = copy_shared(donated, kept)
        if self._is_pure and self._first_inputs is not None:
            outputs: Sequence[jax.Array] = self._run([], [], donated, kept)
            return outputs
        changed, read_only = self._variable_io.arrays()
        if self._first_inputs is None:
            inputs = (changed, read_only, donated, kept)
            self._first_inputs = described(inputs)
        if self._device is None:
            results = self._execute(changed, read_only, donated, kept)
        else:
            with jax.default_device(self._device):
                results = self._execute(changed, read_only, donated, kept)
        self._variable_io.mark_forwarded()
        if self._is_unjitted:
            self._variable_io.mark_all()
        return results

    def _execute(
        self, changed: list[Any], read_only: list[Any], donated: Any, kept: Any
    ) -> Sequence[jax.Array]:
        """Runs the program, gives variables their new arrays, returns the results."""
        num_results = self._num_results
        if self._calls_back:
            return self._execute_unlocked(changed, read_only, donated, kept)
        if self._can_raise or not changed or not self._is_local:
            outputs = self._run(changed, read_only, donated, kept)
            if self._can_raise:
                # NaN checks of JAX must raise before variables change.
                jax.block_until_ready(outputs)
            is_pure = num_results == len(outputs)
            return outputs if is_pure else self._variable_io.store(outputs, num_results)
        # Runs when the first output is taken, so that Ctrl-C cannot come between the
        # program and the variables.
        calls = map(self._run, [changed], [read_only], [donated], [kept])
        outputs = itertools.chain.from_iterable(calls)
        places = [jit_key(kept[i]) for i in self._unplaced]
        places += [jit_key(array) for array in donated]
        if places in self._known_inputs:
            return self._variable_io.store(outputs, num_results)
        # The first call with these shardings goes through Python code of JAX, where
        # Ctrl-C would lose the results. Compiling can take long, so it comes before.
        self._run.lower(changed, read_only, donated, kept).compile()
        with variable_io.deferred():
            results = self._variable_io.store(outputs, num_results)
        self._known_inputs = [*self._known_inputs, places][-_MAX_KNOWN_INPUTS:]
        return results

    def _execute_unlocked(self, *inputs: Any) -> Sequence[jax.Array]:
        """Like `_execute`, with the lock released, because callbacks may use variables.

        Errors of callbacks are raised before variables change.
        """
        self._variable_io.mark_all()
        with aliasing.lock_released():
            outputs = jax.block_until_ready(self._run(*inputs))
            self._failures.raise_first()
        _, read_only, _, _ = inputs
        self._variable_io.refuse_concurrent_writes(read_only)
        return self._variable_io.store(outputs, self._num_results)


def _topology_of(traced: Traced, placements: Sequence[Placement]) -> Topology | None:
    """Returns the devices that a program runs on; None if on any."""
    variables = (*traced.reads, *traced.writes)
    of_variables = [_topology_of_variable(variable) for variable in variables]
    of_arguments = [placement.topology for placement in placements]
    found = {*traced.topologies, *of_arguments, *of_variables}
    return only_topology({topology for topology in found if topology is not None})


def _topology_of_variable(variable: Variable) -> Topology | None:
    """Returns the devices that a variable belongs to; None if to none."""
    if isinstance(variable, ForeignVariable):
        return None
    if isinstance(variable, DistributedVariable):
        return variable.topology
    topology: Topology | None = getattr(variable.owner, "topology", None)
    return topology if topology is not None and topology.is_single else None


def explain(
    error: Exception, changed: Sequence[Variable], donated: Iterable[Any] = ()
) -> None:
    """Adds to the error of a call what needs memory, and which variables are lost."""
    variables = [(repr(v.name), v.stored) for v in changed]
    arguments = [(f"an argument of shape {a.shape}", a) for a in donated]
    ways = [SHARD_STATE] * bool(variables) + [SHARD] * bool(arguments)
    advise(error, [*variables, *arguments], *ways, LESS_TEMPORARY)
    lost = [v for v in changed if v.stored.is_deleted()]
    if lost:
        error.add_note(aliasing.lost_values_note([variable.name for variable in lost]))
