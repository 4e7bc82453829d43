"""A compiled function: what is called once tracing is over."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax import jax_internals, trees
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.jax_internals import Var
from mirrax.run import interruptions
from mirrax.run.callbacks import Failures, catch_failures, has_callbacks
from mirrax.run.fingerprints import require_same_program
from mirrax.run.forms import Form, only_topology, split_outputs
from mirrax.run.over_workers import on_all_workers
from mirrax.run.tracing import Traced, trace
from mirrax.trees import Tree
from mirrax.values.per_replica import PerReplica
from mirrax.variables import lending
from mirrax.variables.distributed import DistributedVariable
from mirrax.variables.foreign import ForeignVariable
from mirrax.variables.sync_on_read import SyncOnReadVariable
from mirrax.variables.variable import Variable

_stored = operator.attrgetter("stored")
_first = operator.itemgetter(0)


class Program:
    """A function compiled for arguments of one kind, with variables in and out.

    Args:
        body: The user's function, of the dynamic arguments alone.
        arguments: Stand-ins for those arguments.
        forms: How they lie on the devices.
        donated: Which of them may be overwritten.
        is_run: Whether the body is a `run`, whose arguments workers have compared.
    """

    def __init__(
        self,
        body: Callable[..., Tree],
        arguments: Sequence[Any],
        forms: Sequence[Form],
        donated: Sequence[bool],
        is_run: bool = False,
    ) -> None:
        def wrapped(*arrays: Any) -> tuple[Sequence[jax.Array], Any]:
            values = [form.wrap(a) for form, a in zip(forms, arrays, strict=True)]
            arrays_out, result = split_outputs(body(*values))
            return arrays_out, (*result, stack.overlay().topologies)

        traced = trace(wrapped, arguments, inside_replica=False)
        structure, self._forms, self._rest, used = traced.result
        self._structure = structure
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
        self._split_variables(traced)
        self._lent_count = -1
        # Plain variables stay on one device, whatever the program runs on.
        self._localized = [
            (v, _Landing())
            for v in traced.writes
            if self._is_over_many and not isinstance(v, DistributedVariable)
        ]
        self._handed_on = [
            (v, _Landing()) for v in traced.writes if isinstance(v, ForeignVariable)
        ]
        landings: dict[Any, Any] = dict([*self._localized, *self._handed_on])
        self._targets = [landings.get(v, v) for v in traced.writes]
        # JAX hands the arrays of results that are plain reads through to the user.
        outputs = {atom for atom in traced.jaxpr.outvars if isinstance(atom, Var)}
        inputs = traced.jaxpr.invars[len(arguments) :]
        self._forwarded = [
            v for v, var in zip(traced.reads, inputs, strict=True) if var in outputs
        ]
        self._needs_care = bool(self._localized or self._forwarded)
        # Where variables of other libraries must lie for a program over many devices.
        self._settled_on = self._topology if self._is_over_many else None
        changed = set(self._changed)
        self._foreign = [
            (v, var.aval, v in changed)
            for v, var in zip(traced.reads, inputs, strict=True)
            if isinstance(v, ForeignVariable)
        ]
        self._run = self._compile(traced, forms)
        self._device = None
        if not self._is_local and self._topology is not None:
            mark = require_same_program(traced.closed, self._topology)
            name = f"{getattr(body, '__name__', 'function')} {mark}"
            self._run = on_all_workers(
                self._run, self._topology, name, *self._plain_inputs(forms, is_run)
            )
        if self._topology is not None and self._topology.is_single:
            self._device = self._topology.devices[0]
        self._placement: Any = None

    def __call__(self, arrays: Sequence[Any]) -> Tree:
        """Runs the program on the dynamic arguments; returns what the user gets."""
        with lending.lock:
            for foreign, aval, is_changed in self._foreign:
                foreign.settle(self._settled_on, aval, is_changed)
            if self._lent_count != lending.ledger.count:
                self._take_back()
            donated = [arrays[i] for i in self._donated_arguments]
            kept = [arrays[i] for i in self._kept_arguments]
            if donated:
                donated = _own_each(donated, kept)
            changed = list(map(_stored, self._changed))
            read_only = list(map(_stored, self._read_only))
            if self._device is None:
                results = self._execute(changed, read_only, donated, kept)
            else:
                with jax.default_device(self._device):
                    results = self._execute(changed, read_only, donated, kept)
            if self._needs_care:
                self._settle()
        return self._assemble(results)

    def _execute(self, *inputs: list[Any]) -> Sequence[jax.Array]:
        """Runs the program, gives variables their new arrays, returns the results."""
        results: Sequence[jax.Array]
        if self._can_raise or not self._changed or not self._is_local:
            new, results = self._run(*inputs)
            if self._can_raise:
                # What a callback raises must come out before variables change.
                self._failures.raise_first((new, results))
            lending.store_all(self._targets, new)
            self._hand_on()
            return results
        placement = [_placement(array) for arrays in inputs[2:] for array in arrays]
        if placement == self._placement:
            return self._run_and_store(inputs)
        # JAX is about to go through Python, where an interruption would cost the
        # results. Compiling, which can take long, is done before.
        self._run.lower(*inputs).compile()
        with interruptions.deferred():
            results = self._run_and_store(inputs)
        self._placement = placement
        return results

    def _run_and_store(self, inputs: Sequence[list[Any]]) -> Sequence[jax.Array]:
        calls, outputs = itertools.tee(map(self._run, *([item] for item in inputs)))
        new = itertools.chain.from_iterable(map(_first, calls))
        try:
            lending.store_all(self._targets, new)
        finally:
            self._hand_on()
        results: Sequence[jax.Array] = next(outputs)[1]
        return results

    def _hand_on(self) -> None:
        """Gives variables of other libraries, which run Python, their new arrays."""
        for variable, landing in self._handed_on:
            if landing.stored is not None:
                variable.stored = landing.take()

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

    def _settle(self) -> None:
        for variable, landing in self._localized:
            local = jax_internals.shards(landing.take())[0]
            variable.store(jax_internals.view(local))
        for variable in self._forwarded:
            lending.mark(variable)

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
        ) -> tuple[list[Any], list[Any]]:
            variables = [*changed, *read_only]
            arguments = [*donated, *kept]
            outputs = traced.evaluate(
                [arguments[i] for i in argument_order],
                [variables[i] for i in self._read_order],
            )
            count = len(traced.writes)
            return outputs[:count], outputs[count:]

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
            out_shardings=(
                [self._sharding_of(v) for v in traced.writes],
                [self._sharding(form) for form in self._forms if form is not None],
            ),
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
        given = iter(results)
        leaves = [
            rest if form is None else self._present(form, next(given))
            for form, rest in zip(self._forms, self._rest, strict=True)
        ]
        return trees.unflatten(self._structure, leaves)

    def _present(self, form: Form, array: jax.Array) -> Any:
        if form.kind == "plain" and self._is_over_many:
            return jax_internals.uncommitted(jax_internals.shards(array)[0])
        wrapped = form.wrap(array)
        if isinstance(wrapped, PerReplica) and len(wrapped.values) == 1:
            # As an eager `run` gives it to a worker with one replica.
            return wrapped.values[0]
        return wrapped


class _Landing:
    """Takes what a program makes of a variable that is kept somewhere else."""

    __slots__ = ("stored",)

    def __init__(self) -> None:
        self.stored: Any = None

    def take(self) -> Any:
        """Returns the array, which then is no longer here."""
        array, self.stored = self.stored, None
        return array


def _placement(array: Any) -> Any:
    """Returns what makes JAX look for another program, beside shape and dtype."""
    if isinstance(array, jax.Array):
        return array.sharding, array.committed
    return type(array)


def _own_each(donated: list[Any], kept: list[Any]) -> list[Any]:
    """Returns donated arguments, each in an array that may be overwritten.

    One that is given twice, or that shares its memory with a variable, is copied.
    """
    seen = {id(array) for array in kept}
    owned = []
    for array in donated:
        if jax_internals.is_stored(array) and array.is_deleted():
            raise ValueError(
                "An argument in `donate_argnums` is overwritten by the call, so it "
                "cannot be given again. Received: an array that an earlier call took. "
                "Use what that call returned, or leave the argument out of "
                "`donate_argnums`."
            )
        is_shared = id(array) in seen or lending.is_view(array)
        seen.add(id(array))
        owned.append(jnp.copy(array) if is_shared else array)
    return owned


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
