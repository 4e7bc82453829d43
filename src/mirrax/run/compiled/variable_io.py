"""The variables of a program: their arrays go in, the new ones come out.

An interruption between the two would lose arrays, so it is deferred.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax._jax.arrays import shards, view
from mirrax._jax.jaxprs import Var
from mirrax.devices.topology import Topology
from mirrax.run.compiled.tracing import Traced
from mirrax.variables import aliasing
from mirrax.variables.array_storage import Slots, in_storage_order, storage_list_of
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.foreign_variable import ForeignVariable
from mirrax.variables.variable import Variable

_WHOLE = slice(None)
_is_deleted = operator.methodcaller("is_deleted")


class VariableIO:
    """The variables that a program reads and writes.

    Callers hold `aliasing.lock`.

    Args:
        topology: The devices it runs on, if they are several.
        may_overwrite: Whether it may overwrite the arrays of variables it changes.

    Attributes:
        changed: The variables whose arrays it overwrites.
        read_only: The other ones that it reads.
        written: Those it gives new arrays: first `changed`, then the others.
    """

    def __init__(
        self, traced: Traced, topology: Topology | None, may_overwrite: bool
    ) -> None:
        is_over_many = topology is not None
        writes = set(traced.writes) if may_overwrite else set()
        # Other libraries hand out their arrays without telling us, so these are never
        # overwritten.
        own = [v for v in traced.reads if not isinstance(v, ForeignVariable)]
        changed = [
            v for v in own if v in writes and not (is_over_many and _is_plain(v))
        ]
        self.changed = in_storage_order(changed)
        self.read_only = [v for v in traced.reads if v not in set(changed)]
        others = [v for v in traced.writes if v not in set(changed)]
        self.written = [*self.changed, *others]
        # Their new arrays come into cells first: they belong to other libraries, or
        # stay on one device, whatever the program runs on.
        self._by_cells: list[tuple[Variable, list[Any]]] = [
            (variable, [None])
            for variable in self.written
            if variable.slot() is None or (is_over_many and _is_plain(variable))
        ]
        inputs = traced.variable_inputs
        self._foreign = [
            (v, var.aval, v.layout if is_over_many else None)
            for v, var in zip(traced.reads, inputs, strict=True)
            if isinstance(v, ForeignVariable)
        ]
        # JAX hands the arrays of results that are plain reads through to the user.
        outputs = traced.forwarded
        self._forwarded = [
            v for v, var in zip(traced.reads, inputs, strict=True) if var in outputs
        ]
        self._read_and_written = _read_and_written(traced)
        self._topology = topology
        self._alias_count = self._moves = -1

    @property
    def has_foreign(self) -> bool:
        """Whether variables of other libraries are among them."""
        return bool(self._foreign)

    @property
    def reads_plain(self) -> bool:
        """Whether it reads variables that belong to no replicas."""
        return any(map(_is_plain, self.read_only))

    @property
    def are_simple(self) -> bool:
        """Whether it writes just `changed`, and all arrays are in our own storage."""
        special = self._foreign or self._by_cells or self._forwarded
        return not special and len(self.written) == len(self.changed) > 0

    def arrays(self) -> tuple[list[Any], list[Any]]:
        """Returns the arrays of `changed`, ready to be overwritten, and `read_only`."""
        for foreign, aval, layout in self._foreign:
            foreign.prepare(self._topology, aval, layout)
        self._prepare()
        return self._arrays_of_changed(), self._read()

    def store(self, outputs: Iterable[jax.Array], num_rest: int) -> Sequence[jax.Array]:
        """Gives variables their new arrays; returns what comes after them."""
        # A callback of the program may have moved them.
        if self._moves != aliasing.counters.moves:
            self._find()
        if not self._by_cells:
            return self._written_at.write(outputs, num_rest)
        with deferred():
            results = self._written_at.write(outputs, num_rest)
            for variable, cell in self._by_cells:
                array, cell[0] = cell[0], None
                if _is_plain(variable):
                    variable.store(view(shards(array)[0]))
                else:
                    variable.stored = array
        return results

    def exchange(
        self, run: Callable[..., Any], arguments: list[Any]
    ) -> list[jax.Array] | None:
        """Runs the program on the storage list, which receives the new arrays.

        Returns the results; None if the variables do not share a list.

        Args:
            run: The program, as `program_jit` makes it.
            arguments: Its arguments, none of them donated.
        """
        counters = aliasing.counters
        if self._alias_count != counters.aliased or self._moves != counters.moves:
            self._prepare()
        storage = self._storage
        if storage is None:
            return None
        count = len(self.changed)
        read_only = self._read() if self.read_only else []
        # `storage[:] = run(storage, read_only, [], arguments)` in one step of Python.
        # Signals are handled between steps, so Ctrl-C comes before the program runs or
        # after its outputs are stored, and no variable is left with a donated array.
        calls = map(run, (storage,), (read_only,), ([],), (arguments,))
        next(map(operator.setitem, (storage,), (_WHOLE,), calls))
        if len(storage) == count:
            return []
        results = storage[count:]
        del storage[count:]
        return results

    def refuse_concurrent_writes(self, read_only: Sequence[Any]) -> None:
        """Raises if a variable that it updates was assigned since `arrays`.

        A program with callbacks releases the lock while it runs, so that they can read
        variables. Without this check the other assignment would be lost.
        """
        for variable, array in zip(self.read_only, read_only, strict=True):
            if variable in self._read_and_written and variable.stored is not array:
                raise RuntimeError(
                    f"Variable '{variable.name}' was modified while a compiled call "
                    "was updating it. Received: an assignment by a callback of that "
                    "call, or by another thread. The call has changed no variable. "
                    "Return the value from the callback and assign it in the function; "
                    "hold a lock around calls in threads that update the same "
                    "variables."
                )

    def mark_forwarded(self) -> None:
        """Marks the arrays that a call may have returned to the user."""
        for variable in self._forwarded:
            aliasing.mark_aliased(variable)

    def mark_all(self) -> None:
        """Marks all arrays as shared with others."""
        for variable in (*self.written, *self.read_only):
            aliasing.mark_aliased(variable)

    def _prepare(self) -> None:
        """Makes arrays ready to be donated, and finds where they are stored."""
        if self._alias_count != aliasing.counters.aliased:
            self._copy_aliased()
        if self._moves != aliasing.counters.moves:
            self._find()

    def _copy_aliased(self) -> None:
        """Copies the arrays that users may hold, so that they can be donated."""
        for variable in self.changed:
            if variable.is_aliased:
                aliasing.require_alive(variable, variable.stored)
                variable.store(jnp.copy(variable.stored))
        self._reads_aliased = any(variable.is_aliased for variable in self.read_only)
        self._alias_count = aliasing.counters.aliased

    def _read(self) -> list[Any]:
        """Returns the arrays of `read_only`, which users may have donated."""
        arrays = self._arrays_of_read_only()
        if self._reads_aliased and any(map(_is_deleted, arrays)):
            for variable, array in zip(self.read_only, arrays, strict=True):
                aliasing.require_alive(variable, array)
        return arrays

    def _find(self) -> None:
        """Looks up the slots of the variables."""
        self._storage = storage_list_of(self.changed)
        self._arrays_of_changed = _reader_of(self.changed)
        self._arrays_of_read_only = _reader_of(self.read_only)
        cells = {variable: (cell, 0) for variable, cell in self._by_cells}
        slots = [cells.get(variable) or variable.slot() for variable in self.written]
        self._written_at = Slots([slot for slot in slots if slot is not None])
        self._moves = aliasing.counters.moves


def _read_and_written(traced: Traced) -> set[Variable]:
    """Returns our own variables whose new value a program computes from the old one."""
    jaxpr = traced.jaxpr
    atoms = itertools.chain(*(eqn.invars for eqn in jaxpr.eqns), jaxpr.outvars)
    used = {atom for atom in atoms if isinstance(atom, Var)}
    inputs = zip(traced.reads, traced.variable_inputs, strict=True)
    read = {v for v, var in inputs if var in used}
    own = {v for v in traced.writes if not isinstance(v, ForeignVariable)}
    return read & own


def _is_plain(variable: Variable) -> bool:
    """Returns whether a variable belongs to no replicas."""
    return not isinstance(variable, DistributedVariable)


def _reader_of(variables: Sequence[Variable]) -> Callable[[], list[Any]]:
    """Returns a function that returns the arrays of variables; it runs on each call."""
    slots = [variable.slot() for variable in variables]
    found = [slot for slot in slots if slot is not None]
    if len(found) < len(slots):
        # Other libraries store them.
        return lambda: [variable.stored for variable in variables]
    return Slots(found).read


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Makes signals wait for the end of the `with` block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _waiting(signal.SIGTERM), _waiting(signal.SIGINT):
        yield


@contextlib.contextmanager
def _waiting(number: signal.Signals) -> Iterator[None]:
    handler = signal.getsignal(number)
    if not callable(handler):
        yield
        return
    came: list[Any] = []
    try:
        signal.signal(number, lambda *_: came.append(number))
        yield
    finally:
        signal.signal(number, handler)
        if came:
            signal.raise_signal(number)
