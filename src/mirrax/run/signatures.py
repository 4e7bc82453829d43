"""The `input_signature` of a function: which arguments fit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import select
from mirrax.values.specs import PerReplicaSpec, TensorSpec


def check(name: str, specs: Sequence[Any], args: Sequence[Any]) -> None:
    """Raises unless the arguments of the function called `name` fit `specs`."""
    if len(args) != len(specs):
        raise TypeError(
            f"{name} takes {len(specs)} argument(s), as its `input_signature` says. "
            f"Received: {len(args)}."
        )
    for spec, arg in zip(specs, args, strict=True):
        _check(spec, arg)


def _check(spec: Any, arg: Any) -> None:
    if isinstance(spec, TensorSpec):
        spec.check(select(arg, 0))
    elif isinstance(spec, PerReplicaSpec):
        if isinstance(arg, PerReplica):
            for part_spec, part in zip(spec.parts, arg.values, strict=True):
                part_spec.check(part)
        else:
            spec.parts[0].check(arg)
    elif isinstance(spec, dict):
        for name, inner in spec.items():
            _check(inner, arg[name])
    elif isinstance(spec, tuple | list):
        for inner, inner_arg in zip(spec, arg, strict=True):
            _check(inner, inner_arg)


Axes = tuple[int, ...] | None
"""Which sizes of an argument are left open; None for all, however many there are."""


def open_axes(specs: Sequence[Any], numbered: Sequence[Any], count: int) -> list[Axes]:
    """Returns which sizes of each leaf of the arguments `specs` leave open.

    Args:
        specs: The signature.
        numbered: The arguments, with the number of each leaf in its place.
        count: How many leaves there are.
    """
    axes: list[Axes] = [()] * count
    for spec, arg in zip(specs, numbered, strict=False):
        for number, found in _open_axes(spec, arg):
            axes[number] = found
    return axes


def _open_axes(spec: Any, arg: Any) -> Iterator[tuple[int, Axes]]:
    if isinstance(spec, PerReplicaSpec):
        spec = spec.parts[0]
    if isinstance(spec, TensorSpec):
        if isinstance(arg, int):
            yield arg, _open_axes_of(spec)
    elif isinstance(spec, dict):
        for name, inner in spec.items():
            yield from _open_axes(inner, arg[name])
    elif isinstance(spec, tuple | list):
        for inner, inner_arg in zip(spec, arg, strict=True):
            yield from _open_axes(inner, inner_arg)


def _open_axes_of(spec: TensorSpec) -> Axes:
    if spec.shape is None:
        return None
    return tuple(axis for axis, size in enumerate(spec.shape) if size is None)


class Relaxing:
    """Which sizes have differed between the calls of a function without a signature."""

    def __init__(self) -> None:
        self._seen: dict[Any, list[list[int | None]]] = {}

    def open_axes(self, kind: Any, shapes: Sequence[Sequence[int]]) -> list[Axes]:
        """Returns which sizes of the arguments are left open from this call on.

        Args:
            kind: What calls have in common that may share a program.
            shapes: The shapes of the arguments.
        """
        key = (kind, tuple(map(len, shapes)))
        seen = self._seen.get(key) or [list(shape) for shape in shapes]
        self._seen[key] = merged = [
            [old if old == new else None for old, new in zip(known, shape, strict=True)]
            for known, shape in zip(seen, shapes, strict=True)
        ]
        return [
            tuple(axis for axis, size in enumerate(shape) if size is None)
            for shape in merged
        ]
