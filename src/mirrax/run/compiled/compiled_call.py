"""A call of a compiled function: finds its program by key, or builds it."""

from __future__ import annotations

import abc
import contextlib
import operator
import time
from collections.abc import Sequence
from typing import Any

import jax

from mirrax import trees
from mirrax._jax.config import config_fingerprint
from mirrax._jax.traces import is_eager
from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import Topology
from mirrax.run.compiled.arguments import (
    CallArguments,
    keyed_argument,
    topology_of_workers,
)
from mirrax.run.compiled.donated_arguments import are_donated, refuse_donated
from mirrax.run.compiled.last_call import LastCall
from mirrax.run.compiled.program import Program
from mirrax.run.compiled.program_cache import ProgramCache
from mirrax.run.compiled.state_drift import StateDrift
from mirrax.run.compiled.tracing import Traced
from mirrax.run.compiled.workers.worker_arguments import agreed_arguments, agreed_parts
from mirrax.trees import IdentityKey, Tree
from mirrax.variables import foreign_libraries
from mirrax.variables.foreign_variable import Outdated

_REFUSALS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerArrayConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""What JAX raises where Python needs the value of a tracer."""

_HINT = (
    "[mirrax] While a function is traced, arrays have no values to decide on. Use "
    "`mirrax.cond`, `mirrax.while_loop` or `jnp.where`, or call this part outside of "
    "`mirrax.function`."
)


class CompiledCall(abc.ABC):
    """Finds or builds the program of a call: of a function, or of one on replicas.

    Args:
        donated: Which positional arguments it may overwrite.
        topology: The devices, if it runs on replicas.
    """

    def __init__(
        self, name: str, donated: Sequence[int], topology: Topology | None = None
    ) -> None:
        self.name = name
        self.programs = ProgramCache(name)
        self.last_call: LastCall | None = None
        self._donated = donated
        self._topology = topology
        self._state_drift = StateDrift(name)

    @property
    def trace_count(self) -> int:
        """How often the function was traced."""
        return self.programs.trace_count

    @abc.abstractmethod
    def _trace(self, given: CallArguments) -> Traced:
        """Returns what the Python function does with such arguments."""

    @abc.abstractmethod
    def _call_python(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Calls the Python function itself, as part of a derivative."""

    @abc.abstractmethod
    def falls_back_to_python(self, error: Exception) -> bool:
        """Returns whether such calls run untraced, after `error` in their trace."""

    @abc.abstractmethod
    def _run_untraced(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns the results of a call that has no single program."""

    @abc.abstractmethod
    def fingerprint(self, leaves: list[Any]) -> Any:
        """Returns a key for the state of libraries that programs depend on."""

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns what the program for such arguments returns."""
        last_call = self.last_call
        if last_call is not None and not kwargs:
            arrays = last_call.arrays_of(args)
            if arrays is not None:
                return last_call.program(arrays)
        while True:
            # Again if a variable of another library has changed its shape, or the trace
            # itself a library's state that it depends on.
            with contextlib.suppress(Outdated):
                return self._call_by_key(args, kwargs)

    def _call_by_key(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        # Calls through `last_call` do not count as uses of a program in the cache.
        self.last_call = None
        if not is_eager():
            # Part of the current derivative.
            return self._call_python(args, kwargs)
        foreign_libraries.connected()
        leaves, structure = trees.flatten((tuple(args), kwargs))
        is_flat = len(leaves) == len(args) and all(map(operator.is_, leaves, args))
        leaves = self._agreed(leaves, structure)
        arguments = [keyed_argument(leaf, self._topology) for leaf in leaves]
        given = CallArguments(arguments, structure)
        if not given.are_traceable:
            args, kwargs = trees.unflatten(structure, leaves)
            return self._run_untraced(args, kwargs)
        self._state_drift.check(leaves, structure)
        # The `run` of a strategy does the same inside and outside of its scope.
        place = _place() if self._topology is None else None
        fingerprint = self.fingerprint(leaves)
        key = (structure, given.keys, fingerprint, place, config_fingerprint())
        count = self.programs.trace_count
        program = self.programs.get(key, self._build, given)
        if program is None:
            return self._run_untraced(args, kwargs)
        are_inputs = not kwargs and len(given.inputs) == len(leaves)
        if are_inputs and place is None and not program.can_be_outdated:
            nesting = None if is_flat else structure.children()[0].children()
            topology, is_run = self._topology, self._topology is not None
            mirrored_on = None if topology is None or topology.is_local else topology
            self.last_call = LastCall(
                program, leaves, given.keys, nesting, is_run, mirrored_on
            )
        started = time.perf_counter()
        try:
            result = program(given.arrays)
        except Outdated:
            self.programs.drop(key)
            raise
        if self.programs.trace_count != count:
            # JAX compiles in the first call.
            self.programs.seconds += time.perf_counter() - started
        if self._topology is not None:
            self._state_drift.note(leaves, structure, result)
        return result

    def _agreed(self, leaves: list[Any], structure: Any) -> list[Any]:
        """Returns the arguments as all workers know them."""
        topology = self._topology or topology_of_workers(leaves)
        if topology is None or topology.is_local:
            return leaves
        refuse_donated(leaves)
        if self._topology is None:
            return agreed_parts(leaves, topology)
        flags = are_donated(self._donated, structure, self.name)
        return agreed_arguments(leaves, topology, flags)

    def _build(self, given: CallArguments) -> Program | None:
        foreign_libraries.check_arguments(given.filled(given.arrays))
        flags = are_donated(self._donated, given.structure, self.name)
        is_run = self._topology is not None
        self.programs.count_trace()
        try:
            traced = self._trace(given)
        except NotTraceable:
            return None
        except Exception as error:
            if self.falls_back_to_python(error):
                return None
            if isinstance(error, _REFUSALS):
                error.add_note(_HINT)
            raise
        donated = given.of_inputs(flags)
        return Program(traced, given.placements, donated, self.name, is_run)


def _place() -> Any:
    """Returns the part of the context that a trace depends on."""
    frame = stack.frame()
    return None if frame is None else (type(frame), IdentityKey(frame.strategy))
