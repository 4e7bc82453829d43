"""A call of compiled code: its key, its program, and what to do without one."""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from mirrax import trees
from mirrax._jax.config import config_fingerprint
from mirrax._jax.traces import is_eager
from mirrax.context import stack
from mirrax.context.guards import MustDrive, NeedsVariable
from mirrax.devices.topology import Topology
from mirrax.run.compiled import decisions
from mirrax.run.compiled.arguments import (
    NOT_TRACEABLE,
    Donation,
    Slot,
    are_flat,
    flat_structure,
    placement_of_slot,
    slots_of,
    stand_in_of,
    topology_of_workers,
)
from mirrax.run.compiled.placement import Placement
from mirrax.run.compiled.program import Program
from mirrax.run.compiled.program_cache import LastCall, ProgramCache
from mirrax.run.compiled.tracing import Traced
from mirrax.run.compiled.worker_arguments import agreed_arguments, agreed_parts
from mirrax.trees import IdentityKey, Tree
from mirrax.variables import foreign_libraries
from mirrax.variables.foreign_variable import Outdated


class OnlyPython(enum.Enum):
    """Why there is no program for a call."""

    ITERATING = enum.auto()
    """It does what only Python can do, such as iterating a dataset."""
    DECIDING = enum.auto()
    """It decides on the values of arrays."""
    CREATING = enum.auto()
    """It makes variables of values that it computes."""


@dataclasses.dataclass(frozen=True)
class CallArguments:
    """The arguments of a call, as a program takes them.

    Args:
        leaves: The arguments.
        structure: How they are nested.
        slots: How the program takes each of them.
    """

    leaves: Sequence[Any]
    structure: Any
    slots: Sequence[Slot]

    @property
    def arrays(self) -> list[Any]:
        """The inputs of the program."""
        return [array for _, array, layout in self.slots if layout is not None]

    @property
    def dynamic(self) -> list[Slot]:
        """The slots of those inputs."""
        return [slot for slot in self.slots if slot[2] is not None]

    def of_dynamic(self, values: Sequence[Any]) -> list[Any]:
        """Returns those of `values`, one for each argument, that belong to inputs."""
        pairs = zip(values, self.slots, strict=True)
        return [value for value, (_, _, layout) in pairs if layout is not None]

    def filled(self, values: Sequence[Any]) -> Any:
        """Returns the arguments and keywords with `values` in place of the inputs."""
        given = iter(values)
        pairs = zip(self.leaves, self.slots, strict=True)
        leaves = [
            leaf if layout is None else next(given) for leaf, (_, _, layout) in pairs
        ]
        return trees.unflatten(self.structure, leaves)


class CompiledCall(abc.ABC):
    """Finds or builds the program of a call: of a function, or of one on replicas.

    Args:
        name: The name of the function.
        donation: Which arguments it may overwrite.
        python_decisions: Whether Python may decide on values of arrays.
        topology: The devices, if it runs on replicas.
    """

    def __init__(
        self,
        name: str,
        donation: Donation,
        python_decisions: bool,
        topology: Topology | None = None,
    ) -> None:
        self.name = name
        self.python_decisions = python_decisions
        self.programs = ProgramCache(name)
        self.last_call: LastCall | None = None
        self._donation = donation
        self._topology = topology
        self._created: set[Any] = set()

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
    def _run_untraced(
        self, args: Sequence[Any], kwargs: dict[str, Any], is_deciding: bool
    ) -> Tree:
        """Returns the results where one program cannot do it.

        Args:
            args: The arguments.
            kwargs: Those that are given by name.
            is_deciding: Whether Python decides on values of arrays.
        """

    @abc.abstractmethod
    def _fingerprint(self, leaves: list[Any]) -> Any:
        """Returns what libraries say that programs depend on."""

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns what the program for such arguments returns."""
        last_call = self.last_call
        if last_call is not None and not kwargs:
            arrays = last_call.arrays_of(args)
            if arrays is not None:
                return last_call.program(arrays)
        return self._call_by_key(args, kwargs)

    def _call_by_key(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Returns what the program for the key of such arguments returns."""
        # Else calls like the last one would not keep its program in the cache.
        self.last_call = None
        if not is_eager():
            # Part of the derivative that is under way.
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
        slots = slots_of(leaves, self._topology)
        keys = tuple([key for key, _, _ in slots])
        if NOT_TRACEABLE[0] in keys:
            args, kwargs = trees.unflatten(structure, leaves)
            return self._run_untraced(args, kwargs, is_deciding=False)
        fingerprint = self._fingerprint(leaves)
        # The `run` of a strategy does the same inside and outside of its scope.
        place = _place() if self._topology is None else None
        key = (structure, keys, fingerprint, place, config_fingerprint())
        given = CallArguments(leaves, structure, slots)
        program = self.programs.get(key, self._build, given)
        if program is OnlyPython.CREATING:
            return self._create(key, args, kwargs)
        if isinstance(program, OnlyPython):
            return self._run_untraced(args, kwargs, program is OnlyPython.DECIDING)
        if (
            structure == flat_structure(len(leaves))
            and is_local
            and fingerprint is None
            and place is None
            and not program.can_be_outdated
        ):
            self.last_call = LastCall(program, slots, self._topology is not None)
        try:
            return program(given.arrays)
        except Outdated:
            # Another thread may have found out as well.
            self.programs.drop(key)
            return self.call(args, kwargs)

    def _agree(
        self, leaves: list[Any], structure: Any, topology: Topology
    ) -> list[Any]:
        """Returns arguments with what all workers know about them."""
        if self._topology is None:
            return agreed_parts(leaves, topology)
        flags = self._donation.flags(structure, len(leaves))
        return agreed_arguments(leaves, topology, flags)

    def _build(self, given: CallArguments) -> Program | OnlyPython:
        """Returns the program for arguments such as these, if there can be one."""
        foreign_libraries.check_arguments(
            trees.unflatten(given.structure, given.leaves)
        )
        stand_ins = [stand_in_of(slot) for slot in given.dynamic]
        placements = [placement_of_slot(slot) for slot in given.dynamic]
        flags = self._donation.flags(given.structure, len(given.leaves))
        is_run = self._topology is not None
        watched = decisions.noticing if self.python_decisions else decisions.hinting
        self.programs.count_trace()
        try:
            traced = watched(self._trace)(given, stand_ins, placements)
        except decisions.Decided as decided:
            cost = decisions.ON_REPLICAS if is_run else decisions.IN_STEPS
            decisions.tell(self.name, decided, cost)
            return OnlyPython.DECIDING
        except NeedsVariable:
            return OnlyPython.CREATING
        except MustDrive:
            return OnlyPython.ITERATING
        return Program(traced, placements, given.of_dynamic(flags), self.name, is_run)

    def _create(self, key: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Runs the Python, which makes variables of computed values, this one time."""
        self.programs.drop(key)
        if key in self._created:
            raise ValueError(
                "A function can make variables of computed values on its first call "
                f"only. Received: {self.name}, which makes another one on every call. "
                "Keep it, as in `if self.v is None: self.v = Variable(...)`, or create "
                "it outside. tf.function only supports singleton tf.Variables created "
                "on the first call."
            )
        self._created.add(key)
        return self._run_untraced(args, kwargs, is_deciding=True)


def _place() -> Any:
    """Returns the part of the context that a trace depends on."""
    frame = stack.frame()
    return None if frame is None else (type(frame), IdentityKey(frame.strategy))
