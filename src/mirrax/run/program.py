"""A compiled function: what is called once tracing is over."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from mirrax import jax_internals, trees
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.jax_internals import Var
from mirrax.later import Later
from mirrax.run import interruptions
from mirrax.run.callbacks import Failures, catch_failures, has_callbacks
from mirrax.run.forms import Form, only_topology, split_outputs
from mirrax.run.inputs import own_each, placement
from mirrax.run.over_workers import on_all_workers
from mirrax.run.tracing import Traced, trace
from mirrax.trees import Tree
from mirrax.variables import lending
from mirrax.variables.distributed import DistributedVariable
from mirrax.variables.foreign import ForeignVariable
from mirrax.variables.places import Places
from mirrax.variables.sync_on_read import SyncOnReadVariable
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.run import fingerprints
else:
    fingerprints = Later("mirrax.run.fingerprints")


# How many ways in which arguments lie a program remembers to have been called with.
_NUM_PLACEMENTS = 16


def trace_program(
    body: Callable[..., Tree], arguments: Sequence[Any], forms: Sequence[Form]
) -> Traced:
    """Returns a function of the dynamic arguments alone, traced for a `Program`.

    Args:
        body: The user's function.
        arguments: Stand-ins for its arguments.
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
        structure, self._forms, self._rest, used = traced.result
        self._structure = structure
        self._num_results = sum(form is not None for form in self._forms)
        topologies = {
            topology
            for topology in (
                *used,
                *(form.topology for form in forms),
                *(_topology_of(v) for v in (*traced.reads, *traced.writes)),
            )
            if topology is not None
        }
        self._topology = only_topology(topologies)
        self._is_over_many = not (self._topology is None or self._topology.is_single)
        # An error in another process would not be known here.
        self._is_local = self._topology is None or self._topology.is_local
        self._donated_arguments = [i for i, flag in enumerate(donated) if flag]
        self._kept_arguments = [i for i, flag in enumerate(donated) if not flag]
        # What came out of a program or a dataset lies where the program wants it.
        self._unplaced = [
            number
            for number, index in enumerate(self._kept_arguments)
            if forms[index].topology is None
        ]
        self._split_variables(traced)
        self._lent_count = -1
        self._find_places(traced)
        # JAX hands the arrays of results that are plain reads through to the user.
        outputs = {atom for atom in traced.jaxpr.outvars if isinstance(atom, Var)}
        inputs = traced.jaxpr.invars[len(forms) :]
        self._forwarded = [
            v for v, var in zip(traced.reads, inputs, strict=True) if var in outputs
        ]
        self._is_stored_by_python = bool(self._localized or self._handed_on)
        # Where variables of other libraries must lie for a program over many devices.
        self._settled_on = self._topology if self._is_over_many else None
        changed = set(self._changed)
        self._foreign = [
            (v, var.aval, v in changed)
            for v, var in zip(traced.reads, inputs, strict=True)
            if isinstance(v, ForeignVariable)
        ]
        self._presented: list[Any] = [
            None if form is None else self._presenter(form) for form in self._forms
        ]
        self._are_bare = all(
            form is not None and form.topology is None and present == form.wrap
            for form, present in zip(self._forms, self._presented, strict=True)
        )
        is_leaf = structure == trees.flatten(0)[1]
        self._is_one_array = is_leaf and self._forms[0] is not None
        self._run = self._compile(traced, forms)
        self._device = None
        if not self._is_local and self._topology is not None:
            mark = fingerprints.require_same_program(traced.closed, self._topology)
            self._run = on_all_workers(
                self._run,
                self._topology,
                f"{name} {mark}",
                *self._plain_inputs(forms, is_run),
            )
        if self._topology is not None and self._topology.is_single:
            self._device = self._topology.devices[0]
        self._placements: list[Any] = []

    def __call__(self, arrays: list[Any]) -> Tree:
        """Runs the program on the dynamic arguments; returns what the user gets."""
        with lending.lock:
            for foreign, aval, is_changed in self._foreign:
                foreign.settle(self._settled_on, aval, is_changed)
            if self._lent_count != lending.ledger.count:
                self._take_back()
            for variable, cell in self._fetched:
                cell[0] = variable.stored
            donated, kept = [], arrays
            if self._donated_arguments:
                donated = [arrays[i] for i in self._donated_arguments]
                kept = [arrays[i] for i in self._kept_arguments]
                donated = own_each(donated, kept)
            changed, read_only = self._changed_at.read(), self._read_only_at.read()
            for _, cell in self._fetched:
                cell[0] = None
            if self._device is None:
                results = self._execute(changed, read_only, donated, kept)
            else:
                with jax.default_device(self._device):
                    results = self._execute(changed, read_only, donated, kept)
            for variable in self._forwarded:
                lending.mark(variable)
        return self._assemble(results)

    def _execute(
        self, changed: list[Any], read_only: list[Any], donated: Any, kept: Any
    ) -> Sequence[jax.Array]:
        """Runs the program, gives variables their new arrays, returns the results."""
        if self._can_raise or not self._changed or not self._is_local:
            outputs = self._run(changed, read_only, donated, kept)
            if self._can_raise:
                # What a callback raises must come out before variables change. It may
                # read variables itself, in another thread.
                lending.lock.release()
                try:
                    self._failures.raise_first(outputs)
                finally:
                    lending.lock.acquire()
            is_pure = self._num_results == len(outputs)
            return outputs if is_pure else self._store(outputs)
        # Run when the first output is taken, so that an interruption does not come
        # between the program and the variables.
        calls = map(self._run, [changed], [read_only], [donated], [kept])
        outputs = itertools.chain.from_iterable(calls)
        places: list[Any] = []
        if self._unplaced or donated:
            places += [placement(kept[i]) for i in self._unplaced]
            places += [placement(array) for array in donated]
        if places in self._placements:
            return self._store(outputs)
        # JAX is about to go through Python, where an interruption would cost the
        # results. Compiling, which can take long, is done before.
        self._run.lower(changed, read_only, donated, kept).compile()
        with interruptions.deferred():
            results = self._store(outputs)
        self._placements = [*self._placements[-_NUM_PLACEMENTS:], places]
        return results

    def _store(self, outputs: Iterable[jax.Array]) -> Sequence[jax.Array]:
        """Gives variables their new arrays, and returns the results after them."""
        if not self._is_stored_by_python:
            return self._written_at.write(outputs, self._num_results)
        with interruptions.deferred():
            results = self._written_at.write(outputs, self._num_results)
            for variable, cell in self._handed_on:
                variable.stored, cell[0] = cell[0], None
            for variable, cell in self._localized:
                local = jax_internals.shards(cell[0])[0]
                variable.store(jax_internals.view(local))
                cell[0] = None
        return results

    def _plain_inputs(
        self, forms: Sequence[Form], is_run: bool
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Returns which inputs are no arrays of all workers, and which to compare."""
        variables = [
            (group, index)
            for group, held in enumerate((self._changed, self._read_only))
            for index, variable in enumerate(held)
            if not isinstance(variable, DistributedVariable)
        ]
        arguments = [
            (group + 2, index)
            for group, numbers in enumerate(
                (self._donated_arguments, self._kept_arguments)
            )
            for index, number in enumerate(numbers)
            if forms[number].kind == "plain"
        ]
        everything = [*variables, *arguments]
        # The arguments of a `run` were compared before.
        return everything, variables if is_run else everything

    def _take_back(self) -> None:
        """Gives variables that users may look at arrays that can be overwritten."""
        for variable in self._changed:
            if variable.is_lent:
                lending.require_alive(variable)
                variable.store(jnp.copy(variable.stored))
        self._lent_count = lending.ledger.count

    def _split_variables(self, traced: Traced) -> None:
        """Sorts variables into those overwritten in place, and those only read."""
        written = set(traced.writes)
        self._can_raise = jax_internals.checks_results() or has_callbacks(traced.jaxpr)
        self._failures = Failures()
        is_changed = [
            not self._can_raise
            and v in written
            and (isinstance(v, DistributedVariable) or not self._is_over_many)
            for v in traced.reads
        ]
        pairs = list(zip(traced.reads, is_changed, strict=True))
        self._changed = [v for v, flag in pairs if flag]
        self._read_only = [v for v, flag in pairs if not flag]
        self._read_order = _order(is_changed)

    def _find_places(self, traced: Traced) -> None:
        """Finds where variables are read and written without calling their code."""
        self._fetched = _with_cells(v for v in traced.reads if v.place() is None)
        # Plain variables stay on one device, whatever the program runs on.
        self._localized = _with_cells(
            v
            for v in traced.writes
            if self._is_over_many and not isinstance(v, DistributedVariable)
        )
        self._handed_on = _with_cells(v for v in traced.writes if v.place() is None)
        self._changed_at = _places(self._changed, self._fetched)
        self._read_only_at = _places(self._read_only, self._fetched)
        self._written_at = _places(traced.writes, self._localized + self._handed_on)

    def _compile(self, traced: Traced, forms: Sequence[Form]) -> Any:
        is_donated = [False] * len(forms)
        for index in self._donated_arguments:
            is_donated[index] = True
        argument_order = _order(is_donated)
        if has_callbacks(traced.jaxpr) and self._is_local:
            closed = catch_failures(traced.closed, self._failures)
            traced = dataclasses.replace(traced, closed=closed)

        def flat(
            changed: list[Any],
            read_only: list[Any],
            donated: list[Any],
            kept: list[Any],
        ) -> list[Any]:
            variables = [*changed, *read_only]
            arguments = [*donated, *kept]
            return traced.evaluate(
                [arguments[i] for i in argument_order],
                [variables[i] for i in self._read_order],
            )

        flat.__name__ = "mirrax_function"
        if not self._is_over_many:
            return jax.jit(flat, donate_argnums=(0, 2))
        assert self._topology is not None
        return jax.jit(
            flat,
            donate_argnums=(0, 2),
            in_shardings=(
                [self._sharding_of(v) for v in self._changed],
                [self._sharding_of(v) for v in self._read_only],
                [self._sharding(forms[i]) for i in self._donated_arguments],
                [self._sharding(forms[i]) for i in self._kept_arguments],
            ),
            out_shardings=[
                *(self._sharding_of(v) for v in traced.writes),
                *(self._sharding(form) for form in self._forms if form is not None),
            ],
        )

    def _sharding(self, form: Form) -> Any:
        assert self._topology is not None
        is_split = form.kind == "joined"
        return self._topology.split if is_split else self._topology.replicated

    def _sharding_of(self, variable: Variable) -> Any:
        assert self._topology is not None
        is_split = isinstance(variable, SyncOnReadVariable)
        return self._topology.split if is_split else self._topology.replicated

    def _assemble(self, results: Sequence[jax.Array]) -> Tree:
        if self._is_one_array:
            return self._presented[0](results[0])
        if self._are_bare:
            return trees.unflatten(self._structure, results)
        given = iter(results)
        leaves = [
            rest if present is None else present(next(given))
            for present, rest in zip(self._presented, self._rest, strict=True)
        ]
        return trees.unflatten(self._structure, leaves)

    def _presenter(self, form: Form) -> Callable[[jax.Array], Any]:
        """Returns what makes an array that the program returns what the user gets."""
        if form.kind == "plain" and self._is_over_many:
            return lambda array: jax_internals.uncommitted(
                jax_internals.shards(array)[0]
            )
        if form.topology is not None and len(form.topology.local_devices) == 1:
            # As an eager `run` gives it to a worker with one replica.
            return lambda array: form.wrap(array).values[0]
        return form.wrap


def _with_cells(variables: Iterable[Variable]) -> list[tuple[Variable, list[Any]]]:
    """Returns variables that are not reached directly, each with room for an array."""
    return [(variable, [None]) for variable in variables]


def _places(
    variables: Sequence[Variable], cells: Sequence[tuple[Variable, list[Any]]]
) -> Places:
    """Returns where the arrays of variables are, with `cells` in place of some."""
    instead = {variable: (cell, 0) for variable, cell in cells}
    places = [instead.get(variable) or variable.place() for variable in variables]
    return Places([place for place in places if place is not None])


def _topology_of(variable: Variable) -> Topology | None:
    if isinstance(variable, ForeignVariable):
        return None
    if isinstance(variable, DistributedVariable):
        return variable.topology
    return None


def _order(is_first: Sequence[bool]) -> list[int]:
    """Returns where each item is found once those flagged have been moved to the front.

    >>> _order([False, True, False])
    [1, 0, 2]
    """
    num_first = sum(is_first)
    front, back = iter(range(num_first)), iter(range(num_first, len(is_first)))
    return [next(front) if flag else next(back) for flag in is_first]
