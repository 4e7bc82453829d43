"""From the arguments of a call to the program for calls of that kind."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

from mirrax import trees
from mirrax.context.guards import MustDrive, NeedsVariable
from mirrax.run import decisions
from mirrax.run.arguments import Slot, form_of_slot, stand_in_of
from mirrax.run.donation import Donation
from mirrax.run.program import Program, trace_program
from mirrax.trees import Tree
from mirrax.variables import libraries


class OnlyPython(enum.Enum):
    """Why there is no program for a call."""

    ITERATING = enum.auto()
    """It does what only Python can do, such as iterating a dataset."""
    DECIDING = enum.auto()
    """It decides on the values of arrays."""
    CREATING = enum.auto()
    """It makes variables of values that it computes."""


@dataclasses.dataclass(frozen=True)
class Given:
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


class Builder:
    """Builds the programs of one function.

    Args:
        name: The name of the function.
        call: Gives what calls its Python, for as long as the function is there.
        donation: Which arguments it may overwrite.
        python_decisions: Whether Python may decide on values of arrays.
        is_run: Whether it is the `run` of a strategy.
        count_trace: Called whenever the function is traced.
    """

    def __init__(
        self,
        name: str,
        call: Callable[[], Callable[..., Any] | None],
        donation: Donation,
        python_decisions: bool,
        is_run: bool,
        count_trace: Callable[[], None],
    ) -> None:
        self._name = name
        self._call = call
        self._donation = donation
        self._watched = decisions.noticing if python_decisions else decisions.hinting
        self._is_run = is_run
        self._count_trace = count_trace

    def build(self, given: Given) -> Program | OnlyPython:
        """Returns the program for arguments such as these, if there can be one.

        Args:
            given: The arguments.
        """
        body = self._body(given)
        stand_ins = [stand_in_of(slot) for slot in given.dynamic]
        forms = [form_of_slot(slot) for slot in given.dynamic]
        flags = self._donation.flags(given.structure, len(given.leaves))
        try:
            self._count_trace()
            traced = trace_program(body, stand_ins, forms)
        except decisions.Decided as decided:
            cost = decisions.ON_REPLICAS if self._is_run else decisions.IN_STEPS
            decisions.tell(self._name, decided, cost)
            return OnlyPython.DECIDING
        except NeedsVariable:
            return OnlyPython.CREATING
        except MustDrive:
            return OnlyPython.ITERATING
        return Program(traced, forms, given.of_dynamic(flags), self._name, self._is_run)

    def _body(self, given: Given) -> Callable[..., Tree]:
        """Returns the Python function, of the inputs of the program alone."""
        libraries.check_arguments(trees.unflatten(given.structure, given.leaves))

        call = self._call()
        assert call is not None

        def body(*values: Any) -> Tree:
            args, kwargs = given.filled(values)
            return call(*args, **kwargs)

        body.__name__ = self._name
        return self._watched(body)
