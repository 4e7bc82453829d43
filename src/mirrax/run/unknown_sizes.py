"""Functions whose signature leaves sizes open: one trace for many shapes.

The function is traced with symbols in place of the open sizes. For each shape it meets
later, numbers take the places of the symbols. What its Python asks about sizes while it
is traced is answered for the first shape, and a shape for which an answer would be
another one gets a trace of its own. Where symbols do not work at all, each shape is
traced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax import trees
from mirrax.context.guards import MustDrive
from mirrax.devices.topology import Topology
from mirrax.jax_symbols import OF_PARTS, Numbers, Scope, Size
from mirrax.run.callbacks import callbacks_of
from mirrax.run.decisions import Decided
from mirrax.run.forms import Form
from mirrax.run.hidden import reachable
from mirrax.run.numbered import numbered
from mirrax.run.program import trace_program
from mirrax.run.signatures import Axes
from mirrax.run.tracing import Traced
from mirrax.trees import Tree
from mirrax.values.array_like import ArrayLike

_MAX_TRACES = 16

# What is computed with a size, or assigned to a variable, is an array of the program.
ArrayLike.register(Size)


@dataclasses.dataclass(frozen=True)
class Opened:
    """Arguments of a function, of which some sizes are left open.

    Args:
        stand_ins: What describes each.
        forms: How they lie on the devices.
        axes: Which sizes of each are open.
    """

    stand_ins: Sequence[Any]
    forms: Sequence[Form]
    axes: Sequence[Axes]

    def sizes(self) -> Iterator[tuple[int, int, int, int]]:
        """Yields argument, axis, number, and how many parts it is there for, each."""
        for index, (form, axes) in enumerate(zip(self.forms, self.axes, strict=True)):
            is_split = form.kind == "joined" and not form.is_scalar
            shape = getattr(self.stand_ins[index], "shape", ())
            for axis in range(len(shape)) if axes is None else axes:
                count = 1
                if is_split and axis == 0 and form.topology is not None:
                    count = form.topology.num_replicas
                yield index, axis, shape[axis] // count, count

    def on_replica(self, index: int) -> Opened:
        """Returns the arguments as if all replicas had parts like this one.

        Only for stand-ins of unequal parts: tuples with one for each replica.
        """
        stand_ins = [s[index] if isinstance(s, tuple) else s for s in self.stand_ins]
        return dataclasses.replace(self, stand_ins=stand_ins)

    @property
    def topology_of_parts(self) -> Topology:
        """The devices of the arguments in unequal parts."""
        for stand_in, form in zip(self.stand_ins, self.forms, strict=True):
            if isinstance(stand_in, tuple) and form.topology is not None:
                return form.topology
        raise AssertionError("No argument is there in unequal parts.")

    @property
    def numbers(self) -> list[int]:
        """The open sizes."""
        return [number for _, _, number, _ in self.sizes()]

    @property
    def names(self) -> list[str]:
        """A symbol for each open size; sizes that are equal along an axis share one.

        The arguments of a function are often examples and their labels.
        """
        known: dict[tuple[str, int, int], str] = {}
        names = []
        for index, axis, number, _ in self.sizes():
            kind = OF_PARTS if self.forms[index].kind == "joined" else "size"
            key = (kind, axis, number)
            names.append(known.setdefault(key, f"{kind}{len(known)}"))
        return names

    def with_sizes(self, scope: Scope) -> list[Any]:
        """Returns the stand-ins with symbols for the open sizes."""
        shapes = {
            index: list(stand_in.shape)
            for index, stand_in in enumerate(self.stand_ins)
            if self.axes[index] != ()
        }
        names = self.names
        for name, (index, axis, _, count) in zip(names, self.sizes(), strict=True):
            shapes[index][axis] = count * scope.size(name)
        return [
            _reshaped(stand_in, shapes[index]) if index in shapes else stand_in
            for index, stand_in in enumerate(self.stand_ins)
        ]

    def kind(self) -> Any:
        """Returns what arguments have in common that may share a trace."""
        shapes = [list(getattr(stand_in, "shape", ())) for stand_in in self.stand_ins]
        for index, axis, _, _ in self.sizes():
            shapes[index][axis] = None
        return tuple(map(tuple, shapes))


@dataclasses.dataclass(frozen=True)
class SizedTrace:
    """A function traced over sizes.

    Args:
        traced: The program.
        names: The symbol of each open size of the arguments.
        scope: What was asked about the symbols.
    """

    traced: Traced
    names: Sequence[str]
    scope: Scope

    def numbers_for(self, opened: Opened) -> Numbers | None:
        """Returns what the symbols are for these arguments; None if it does not fit."""
        numbers: dict[str, int] = {}
        for name, number in zip(self.names, opened.numbers, strict=True):
            if numbers.setdefault(name, number) != number:
                return None
        return numbers if self.scope.fits(numbers) else None

    def numbers_for_all(self, all_opened: Sequence[Opened]) -> list[Numbers] | None:
        """Returns the same for arguments of several shapes, which must all fit."""
        found = [self.numbers_for(opened) for opened in all_opened]
        numbers = [own for own in found if own is not None]
        return numbers if len(numbers) == len(found) else None

    def with_numbers(self, numbers: Numbers) -> Traced:
        """Returns the program for one shape."""
        closed = numbered(self.traced.closed, numbers)
        return dataclasses.replace(self.traced, closed=closed)


class SizedTraces:
    """The traces over sizes of one function."""

    def __init__(self) -> None:
        # None for arguments with which symbols do not work.
        self._traces: dict[Any, list[SizedTrace] | None] = {}

    def find(
        self,
        key: Any,
        body: Callable[..., Tree],
        opened: Opened,
        count_trace: Callable[[], None],
    ) -> Traced:
        """Returns the program for these arguments.

        Args:
            key: What of a call decides on the program, beside the arguments' shapes.
            body: The user's function.
            opened: The arguments.
            count_trace: Called if the function has to be traced.
        """
        found = self.find_over_sizes(key, body, [opened], count_trace)
        if found is not None:
            trace, (numbers,) = found
            return trace.with_numbers(numbers)
        count_trace()
        return trace_program(body, opened.stand_ins, opened.forms)

    def find_over_sizes(
        self,
        key: Any,
        body: Callable[..., Tree],
        all_opened: Sequence[Opened],
        count_trace: Callable[[], None],
    ) -> tuple[SizedTrace, list[Numbers]] | None:
        """Returns the trace for arguments of each of several shapes, with the numbers.

        None where symbols do not work, or for some of the shapes alone.
        """
        key = (key, all_opened[0].kind())
        traces = self._traces.setdefault(key, [])
        for trace in traces or ():
            numbers = trace.numbers_for_all(all_opened)
            if numbers is not None:
                return trace, numbers
        if traces is None or len(traces) >= _MAX_TRACES:
            return None
        new = trace_sizes(body, max(all_opened, key=lambda opened: opened.numbers))
        if new is None:
            self._traces[key] = None
            return None
        count_trace()
        traces.append(new)
        numbers = new.numbers_for_all(all_opened)
        return None if numbers is None else (new, numbers)


def trace_sizes(body: Callable[..., Tree], opened: Opened) -> SizedTrace | None:
    """Returns the function traced over sizes; None if that does not work."""
    names = opened.names
    scope = Scope(dict(zip(names, opened.numbers, strict=True)))

    def with_arrays(*values: Any) -> Tree:
        return trees.map_leaves(_as_result, body(*values))

    try:
        traced = trace_program(with_arrays, opened.with_sizes(scope), opened.forms)
    except Decided:
        # What has no symbol may still have a number.
        return None
    except MustDrive:
        raise
    except Exception:
        # If it is the user's error, tracing for numbers raises it again.
        return None
    finally:
        scope.close()
    return None if _hides_sizes(traced) else SizedTrace(traced, names, scope)


def _as_result(leaf: Any) -> Any:
    """Returns a size, or what consists of sizes, as an array; all else as it is."""
    is_ours = trees.is_leaf(leaf) or isinstance(leaf, jax.Array)
    return leaf if is_ours or not hasattr(leaf, "__jax_array__") else jnp.asarray(leaf)


def _hides_sizes(traced: Traced) -> bool:
    """Returns whether there are sizes where no numbers can take their places."""
    structure, _, rest, _ = traced.result
    return any(
        isinstance(value, Size)
        for root in (*callbacks_of(traced.jaxpr), *rest, *_beside_leaves(structure))
        for _, value in reachable(root)
    )


def _beside_leaves(structure: Any) -> Iterator[Any]:
    """Yields what a structure holds beside its leaves: keys, and static fields."""
    data = structure.node_data()
    if data is not None:
        yield data[1]
    for child in structure.children():
        yield from _beside_leaves(child)


def _reshaped(stand_in: Any, shape: Sequence[Any]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(
        tuple(shape), stand_in.dtype, weak_type=stand_in.weak_type
    )
