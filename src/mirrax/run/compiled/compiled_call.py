"""A call of a compiled function: finds its program by key, or builds it."""

from __future__ import annotations

import abc
import dataclasses
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
    NOT_TRACEABLE,
    KeyedArgument,
    are_flat,
    flat_structure,
    keyed_arguments,
    placement_of_argument,
    stand_in_of,
    topology_of_workers,
)
from mirrax.run.compiled.donation import Donation, refuse_donated
from mirrax.run.compiled.known_arguments import KnownArguments
from mirrax.run.compiled.placement import Placement
from mirrax.run.compiled.program import Program
from mirrax.run.compiled.program_cache import LastCall, ProgramCache
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


@dataclasses.dataclass(frozen=True)
class CallArguments:
    """The arguments of a call, as a program takes them.

    Args:
        leaves: The arguments.
        structure: How they are nested.
        keyed: The same with their keys and arrays.
    """

    leaves: Sequence[Any]
    structure: Any
    keyed: Sequence[KeyedArgument]

    @property
    def arrays(self) -> list[Any]:
        """The inputs of the program."""
        return [array for _, array, layout in self.keyed if layout is not None]

    @property
    def dynamic(self) -> list[KeyedArgument]:
        """The arguments that are inputs."""
        return [keyed for keyed in self.keyed if keyed[2] is not None]

    def of_dynamic(self, values: Sequence[Any]) -> list[Any]:
        """Returns those of `values`, one for each argument, that belong to inputs."""
        pairs = zip(values, self.keyed, strict=True)
        return [value for value, (_, _, layout) in pairs if layout is not None]

    def filled(self, values: Sequence[Any]) -> Any:
        """Returns the arguments and keywords with `values` in place of the inputs."""
        given = iter(values)
        pairs = zip(self.leaves, self.keyed, strict=True)
        leaves = [
            leaf if layout is None else next(given) for leaf, (_, _, layout) in pairs
        ]
        return trees.unflatten(self.structure, leaves)


class CompiledCall(abc.ABC):
    """Finds or builds the program of a call: of a function, or of one on replicas.

    Args:
        name: The name of the function.
        donation: Which arguments it may overwrite.
        topology: The devices, if it runs on replicas.
    """

    def __init__(
        self,
        name: str,
        donation: Donation,
        topology: Topology | None = None,
    ) -> None:
        self.name = name
        self.programs = ProgramCache(name)
        self.last_call: LastCall | None = None
        self._donation = donation
        self._topology = topology

    @property
    def trace_count(self) -> int:
        """How often the function was traced."""
        return self.programs.trace_count

    @abc.abstractmethod
    def _trace(
        self,
        given: CallArguments,
        stand_ins: Sequence[Any],
        placements: Sequence[Placement],
    ) -> Traced:
        """Returns what the Python function does with such arguments.

        Args:
            given: The arguments.
            stand_ins: What to trace with in place of those that are inputs.
            placements: How these lie on the devices.
        """

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
    def _fingerprint(self, leaves: list[Any]) -> Any:
        """Returns a key for the state of libraries that programs depend on."""

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns what the program for such arguments returns."""
        last_call = self.last_call
        if last_call is not None and not kwargs:
            arrays = last_call.arrays_of(args)
            if arrays is not None:
                return last_call.program(arrays)
        try:
            return self._call_by_key(args, kwargs)
        except Outdated:
            # The trace itself changed a library's state that it depends on.
            return self._call_by_key(args, kwargs)

    def _call_by_key(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns what the program for the key of such arguments returns."""
        # Calls through `last_call` do not count as uses of a program in the cache.
        self.last_call = None
        if not is_eager():
            # Part of the current derivative.
            return self._call_python(args, kwargs)
        foreign_libraries.connected()
        if are_flat(args, kwargs):
            leaves, structure = list(args), flat_structure(len(args))
        else:
            leaves, structure = trees.flatten((tuple(args), kwargs))
        topology = self._topology or topology_of_workers(leaves)
        is_local = topology is None or topology.job is None
        if topology is not None and not is_local:
            leaves = self._agree(leaves, structure, topology)
        keyed = keyed_arguments(leaves, self._topology)
        keys = tuple([key for key, _, _ in keyed])
        if NOT_TRACEABLE[0] in keys:
            args, kwargs = trees.unflatten(structure, leaves)
            return self._run_untraced(args, kwargs)
        fingerprint = self._fingerprint(leaves)
        # The `run` of a strategy does the same inside and outside of its scope.
        place = _place() if self._topology is None else None
        key = (structure, keys, fingerprint, place, config_fingerprint())
        given = CallArguments(leaves, structure, keyed)
        count = self.programs.trace_count
        program = self.programs.get(key, self._build, given)
        if program is None:
            return self._run_untraced(args, kwargs)
        if (
            not kwargs
            and None not in [layout for _, _, layout in keyed]
            and place is None
            and not program.can_be_outdated
        ):
            is_flat = structure == flat_structure(len(leaves))
            structures = None if is_flat else structure.children()[0].children()
            mirrored_on = None if is_local else self._topology
            known = KnownArguments(leaves, keyed, structures, mirrored_on)
            self.last_call = LastCall(program, known, self._topology is not None)
        started = time.perf_counter()
        try:
            result = program(given.arrays)
        except Outdated:
            # Another thread may have found out as well.
            self.programs.drop(key)
            return self.call(args, kwargs)
        if self.programs.trace_count != count:
            # JAX compiles in the first call.
            self.programs.seconds += time.perf_counter() - started
        return result

    def _agree(
        self, leaves: list[Any], structure: Any, topology: Topology
    ) -> list[Any]:
        """Returns arguments that were compared between workers."""
        refuse_donated(leaves)
        if self._topology is None:
            return agreed_parts(leaves, topology)
        flags = self._donation.flags(structure, len(leaves))
        return agreed_arguments(leaves, topology, flags)

    def _build(self, given: CallArguments) -> Program | None:
        """Returns the program for arguments such as these, if there can be one."""
        foreign_libraries.check_arguments(
            trees.unflatten(given.structure, given.leaves)
        )
        stand_ins = [stand_in_of(argument) for argument in given.dynamic]
        placements = [placement_of_argument(argument) for argument in given.dynamic]
        flags = self._donation.flags(given.structure, len(given.leaves))
        is_run = self._topology is not None
        self.programs.count_trace()
        try:
            traced = self._trace(given, stand_ins, placements)
        except NotTraceable:
            return None
        except Exception as error:
            if self.falls_back_to_python(error):
                return None
            if isinstance(error, _REFUSALS):
                error.add_note(_HINT)
            raise
        return Program(traced, placements, given.of_dynamic(flags), self.name, is_run)


def _place() -> Any:
    """Returns the part of the context that a trace depends on."""
    frame = stack.frame()
    return None if frame is None else (type(frame), IdentityKey(frame.strategy))
