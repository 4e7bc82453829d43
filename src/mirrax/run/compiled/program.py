"""A compiled function with its variables: what a call runs."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from mirrax import trees
from mirrax._jax.config import checks_results, is_jit_disabled
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.lazy_modules import LazyModule
from mirrax.run.compiled import variable_io
from mirrax.run.compiled.arguments import own_each, placement, refuse_taken
from mirrax.run.compiled.callbacks import (
    Failures,
    catch_failures,
    has_callbacks,
    refuse_in_callback,
)
from mirrax.run.compiled.placement import (
    Form,
    Presentation,
    only_topology,
    split_outputs,
)
from mirrax.run.compiled.program_jit import compiled
from mirrax.run.compiled.tracing import Traced, trace
from mirrax.run.compiled.variable_io import Holdings
from mirrax.run.compiled.worker_arguments import on_all_workers
from mirrax.trees import Tree
from mirrax.variables import aliasing
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.foreign_variable import ForeignVariable
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.run.compiled import worker_agreement
else:
    worker_agreement = LazyModule("mirrax.run.compiled.worker_agreement")


# How many ways in which arguments lie a program remembers to have been called with.
_NUM_PLACEMENTS = 16


def trace_program(
    body: Callable[..., Tree], arguments: Sequence[Any], forms: Sequence[Form]
) -> Traced:
    """Returns what `body` does; the result says how it is nested and where it lies.

    Args:
        body: The user's function, of the dynamic arguments alone.
        arguments: Stand-ins for those arguments.
        forms: How they lie on the devices.
    """

    def wrapped(*arrays: Any) -> tuple[Sequence[jax.Array], Any]:
        values = [form.wrap(a) for form, a in zip(forms, arrays, strict=True)]
        arrays_out, result = split_outputs(body(*values))
        return arrays_out, (*result, stack.overlay().topologies)

    return trace(wrapped, arguments, inside_replica=False)


class Program:
    """A function compiled for arguments of one kind, with variables in and out.

    Args:
        traced: What `trace_program` returned for such arguments.
        forms: How the arguments lie on the devices.
        donated: Which of them may be overwritten.
        name: What errors call it.
        is_run: Whether the body is a `run`, whose arguments workers have compared.
    """

    def __init__(
        self,
        traced: Traced,
        forms: Sequence[Form],
        donated: Sequence[bool],
        name: str,
        is_run: bool = False,
    ) -> None:
        structure, result_forms, rest, used = traced.result
        topology = _topology_of(traced, used, forms)
        is_over_many = topology is not None and not topology.is_single
        # An error in another process would not be known here.
        self._is_local = topology is None or topology.is_local
        self._donated_arguments = [i for i, flag in enumerate(donated) if flag]
        self._kept_arguments = [i for i, flag in enumerate(donated) if not flag]
        # What came out of a program or a dataset lies where the program wants it.
        self._unplaced = [
            number
            for number, index in enumerate(self._kept_arguments)
            if forms[index].topology is None
        ]
        self._calls_back = calls_back = has_callbacks(traced.jaxpr)
        self._can_raise = calls_back or checks_results()
        self._failures = Failures()
        self._presentation = Presentation(structure, result_forms, rest, is_over_many)
        self._returns_none = structure == trees.flatten(None)[1]
        many = topology if is_over_many else None
        self._holdings = Holdings(traced, many, not self._can_raise)
        self._lock: contextlib.AbstractContextManager[Any] = aliasing.lock
        if calls_back:
            # It takes `aliasing.lock` by itself, to let go of it.
            writes = bool(self._holdings.written)
            self._lock = aliasing.callback_lock if writes else contextlib.nullcontext()
        if calls_back and self._is_local:
            closed = catch_failures(traced.closed, self._failures)
            traced = dataclasses.replace(traced, closed=closed)
        self._run = compiled(
            traced,
            self._holdings,
            many,
            forms,
            [form for form in result_forms if form is not None],
            self._donated_arguments,
            self._kept_arguments,
        )
        if not self._is_local and topology is not None:
            mark = worker_agreement.require_same_program(traced.closed, topology)
            name = f"{name} {mark}"
            plain = self._plain_inputs(forms, is_run)
            self._run = on_all_workers(self._run, topology, name, *plain)
        is_single = topology is not None and topology.is_single
        self._device = topology.devices[0] if is_single and topology else None
        # Then an array that is given may be the one that is stored.
        self._is_unjitted = is_jit_disabled()
        self._placements: list[Any] = []
        # Whether there is nothing to do but to exchange the arrays of variables.
        self._is_simple = (
            self._holdings.are_simple
            and self._is_local
            and self._device is None
            and not self._is_unjitted
            and not self._donated_arguments
            and not self._unplaced
        )

    @property
    def can_be_outdated(self) -> bool:
        """Whether variables may get other shapes, so that it does not fit any more."""
        return self._holdings.has_foreign

    def __call__(self, arrays: list[Any]) -> Tree:
        """Runs the program on the dynamic arguments; returns what the user gets."""
        if arrays:
            refuse_taken(arrays)
        if self._calls_back:
            refuse_in_callback()
        with self._lock:
            results: Sequence[jax.Array] | None = None
            try:
                if self._is_simple and self._placements:
                    results = self._holdings.exchange(self._run, [], arrays)
                if results is None:
                    results = self._call_with_care(arrays)
            except Exception as error:
                explain(error, self._holdings.changed)
                raise
        return None if self._returns_none else self._presentation(results)

    def _call_with_care(self, arrays: list[Any]) -> Sequence[jax.Array]:
        with aliasing.lock:
            return self._call_locked(arrays)

    def _call_locked(self, arrays: list[Any]) -> Sequence[jax.Array]:
        donated, kept = [], arrays
        if self._donated_arguments:
            donated = [arrays[i] for i in self._donated_arguments]
            kept = [arrays[i] for i in self._kept_arguments]
            donated = own_each(donated, kept)
        changed, read_only = self._holdings.arrays()
        if self._device is None:
            results = self._execute(changed, read_only, donated, kept)
        else:
            with jax.default_device(self._device):
                results = self._execute(changed, read_only, donated, kept)
        self._holdings.lend_forwarded()
        if self._is_unjitted:
            self._holdings.lend_all()
        return results

    def _execute(
        self, changed: list[Any], read_only: list[Any], donated: Any, kept: Any
    ) -> Sequence[jax.Array]:
        """Runs the program, gives variables their new arrays, returns the results."""
        num_results = self._presentation.num_arrays
        if self._calls_back:
            return self._execute_unlocked(changed, read_only, donated, kept)
        if self._can_raise or not changed or not self._is_local:
            outputs = self._run(changed, read_only, donated, kept)
            if self._can_raise:
                # What JAX finds in the results must come out before variables change.
                jax.block_until_ready(outputs)
            is_pure = num_results == len(outputs)
            return outputs if is_pure else self._holdings.store(outputs, num_results)
        # Run when the first output is taken, so that an interruption does not come
        # between the program and the variables.
        calls = map(self._run, [changed], [read_only], [donated], [kept])
        outputs = itertools.chain.from_iterable(calls)
        places = [placement(kept[i]) for i in self._unplaced]
        places += [placement(array) for array in donated]
        if places in self._placements:
            return self._holdings.store(outputs, num_results)
        # JAX is about to go through Python, where an interruption would cost the
        # results. Compiling, which can take long, is done before.
        self._run.lower(changed, read_only, donated, kept).compile()
        with variable_io.deferred():
            results = self._holdings.store(outputs, num_results)
        self._placements = [*self._placements[-_NUM_PLACEMENTS:], places]
        return results

    def _execute_unlocked(self, *inputs: Any) -> Sequence[jax.Array]:
        """Does the same while others may use variables: callbacks, in other threads.

        What callbacks raise must come out before variables change.
        """
        self._holdings.lend_all()
        aliasing.lock.release()
        try:
            outputs = jax.block_until_ready(self._run(*inputs))
            self._failures.raise_first()
        finally:
            aliasing.lock.acquire()
        _, read_only, _, _ = inputs
        self._holdings.require_unchanged(read_only)
        return self._holdings.store(outputs, self._presentation.num_arrays)

    def _plain_inputs(
        self, forms: Sequence[Form], is_run: bool
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Returns which inputs are no arrays of all workers, and which to compare."""
        held = (self._holdings.changed, self._holdings.read_only)
        variables = [
            (group, index)
            for group, variables in enumerate(held)
            for index, variable in enumerate(variables)
            if not isinstance(variable, DistributedVariable)
        ]
        given = (self._donated_arguments, self._kept_arguments)
        arguments = [
            (group + len(held), index)
            for group, numbers in enumerate(given)
            for index, number in enumerate(numbers)
            if forms[number].kind == "plain"
        ]
        everything = [*variables, *arguments]
        # The arguments of a `run` were compared before.
        return everything, variables if is_run else everything


def _topology_of(
    traced: Traced, used: set[Topology], forms: Sequence[Form]
) -> Topology | None:
    """Returns the devices that a program runs on; None if it does not matter."""
    variables = (*traced.reads, *traced.writes)
    of_variables = [_topology_of_variable(variable) for variable in variables]
    of_arguments = [form.topology for form in forms]
    found = {*used, *of_arguments, *of_variables}
    return only_topology({topology for topology in found if topology is not None})


def _topology_of_variable(variable: Variable) -> Topology | None:
    """Returns the devices that a variable belongs to; None if to none."""
    if isinstance(variable, ForeignVariable):
        return None
    if isinstance(variable, DistributedVariable):
        return variable.topology
    topology: Topology | None = getattr(variable.owner, "topology", None)
    return topology if topology is not None and topology.is_single else None


def explain(error: Exception, changed: Sequence[Variable]) -> None:
    """Adds to `error`, which a call raised, which of these variables are lost.

    Args:
        error: What the call raised.
        changed: The variables whose arrays it overwrites.
    """
    lost = [v for v in changed if v.stored.is_deleted()]
    if lost:
        error.add_note(aliasing.lost_values_note([variable.name for variable in lost]))
