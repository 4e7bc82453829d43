"""How much memory compiled programs need on each device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Self

import jax

from mirrax._jax.arrays import is_stored
from mirrax.html_tables import html_table
from mirrax.variables.out_of_memory import bytes_on_device, in_units

_COLUMNS = ("weights", "other state", "arguments", "temporary")


@dataclasses.dataclass(frozen=True)
class ProgramMemory:
    """The bytes that a program needs on one device.

    Args:
        name: The function.
        weights: Of trainable variables.
        state: Of other variables, such as the slots of an optimizer.
        arguments: Of its arguments.
        temporary: Of what XLA stores while it runs.
    """

    name: str
    weights: int
    state: int
    arguments: int
    temporary: int


@dataclasses.dataclass(frozen=True)
class MemoryReport:
    """What `Strategy.memory_report` returns; prints as a table, also in notebooks.

    Args:
        programs: The memory of each program.
    """

    programs: tuple[ProgramMemory, ...]

    @classmethod
    def of(cls, functions: Iterable[Any]) -> Self:
        """Returns the memory of the programs of compiled functions that have run."""
        analyzed = [program.analyzed() for f in functions for program in f.programs]
        return cls(tuple(found[0] for found in analyzed if found is not None))

    def __str__(self) -> str:
        table = [("on one device", *_COLUMNS), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            "  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])])
            for name, *cells in table
        )

    def _repr_html_(self) -> str:
        return html_table("memory", ("on one device", *_COLUMNS), self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (p.name, *map(in_units, (p.weights, p.state, p.arguments, p.temporary)))
            for p in self.programs
        ]


def described(inputs: Any) -> Any:
    """Returns a structure with shape, dtype and sharding in place of each array."""
    return jax.tree.map(_described, inputs)


def _described(array: Any) -> Any:
    if not is_stored(array):
        return array
    return jax.ShapeDtypeStruct(
        array.shape,
        array.dtype,
        sharding=array.sharding,
        weak_type=array.aval.weak_type,
    )


def memory_of(
    name: str, compiled: Any, weights: Iterable[Any], state: Iterable[Any]
) -> ProgramMemory:
    """Returns a program's memory, by XLA; `weights` are trainable, `state` is not."""
    analysis = compiled.memory_analysis()
    in_weights = sum(map(bytes_on_device, weights))
    in_state = sum(map(bytes_on_device, state))
    arguments = max(analysis.argument_size_in_bytes - in_weights - in_state, 0)
    temporary = analysis.temp_size_in_bytes
    return ProgramMemory(name, in_weights, in_state, arguments, temporary)
