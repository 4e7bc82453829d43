"""The `input_signature` of a function: which arguments fit it, what it leaves open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp

from mirrax import jax_internals, trees
from mirrax.values.array_like import is_array_like
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import select
from mirrax.values.specs import PerReplicaSpec, TensorSpec

Axes = tuple[int, ...] | None
"""Which sizes of an argument are left open; None for all, however many there are."""


class Signature:
    """What the arguments of a function must be like.

    Args:
        name: The name of the function.
        fn: The function.
        specs: Descriptions that its arguments must fit; None if there are none.

    Attributes:
        is_method: Whether the first argument is the object that it is called on.
    """

    def __init__(
        self, name: str, fn: Callable[..., Any], specs: Sequence[Any] | None
    ) -> None:
        self._name = name
        self._fn = fn
        self.specs = None if specs is None else _required_specs(specs)
        self.is_method = False

    def fitted(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns these arguments, lists as arrays; raises unless they fit."""
        if self.specs is None:
            return args, kwargs
        if kwargs:
            bound = inspect.signature(self._fn).bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        first = int(self.is_method)
        if len(args) - first != len(self.specs):
            raise TypeError(
                f"{self._name} takes {len(self.specs)} argument(s), as its "
                f"`input_signature` says. Received: {len(args) - first}."
            )
        own = [_fitted(s, a) for s, a in zip(self.specs, args[first:], strict=True)]
        return (*args[:first], *own), kwargs

    @property
    def can_be_relaxed(self) -> bool:
        """Whether sizes may be left open that nobody described."""
        return self.specs is None and not jax_internals.is_distributed()

    def open_axes(self, structure: Any, count: int) -> list[Axes]:
        """Returns which sizes of each leaf of the arguments are left open.

        Args:
            structure: How the arguments are nested.
            count: How many leaves there are.
        """
        axes: list[Axes] = [()] * count
        if self.specs is None or jax_internals.is_distributed():
            return axes
        args, kwargs = trees.unflatten(structure, list(range(count)))
        numbered = self._by_position(args, kwargs)
        for spec, arg in zip(self.specs, numbered, strict=False):
            for number, found in _open_axes(spec, arg):
                axes[number] = found
        return axes

    def _by_position(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Sequence[Any]:
        """Returns the arguments in order, without the object of a method."""
        if kwargs:
            args = inspect.signature(self._fn).bind(*args, **kwargs).args
        return args[1:] if self.is_method else args


def _required_specs(specs: Any) -> tuple[Any, ...]:
    is_list = isinstance(specs, list | tuple)
    if not is_list or any(isinstance(s, int | float | str | type) for s in specs):
        raise TypeError(
            "`input_signature` is a list with a description for each argument, such as "
            f"[TensorSpec([None, 2])]. Received: {specs!r}."
        )
    return tuple(specs)


def _fitted(spec: Any, arg: Any) -> Any:
    """Returns an argument that fits its description, or raises."""
    if isinstance(spec, TensorSpec):
        spec.check(select(arg, 0))
        return jnp.asarray(arg) if _is_list_of_numbers(arg) else arg
    if isinstance(spec, PerReplicaSpec):
        if not isinstance(arg, PerReplica):
            return _fitted(spec.parts[0], arg)
        for part_spec, part in zip(spec.parts, arg.values, strict=True):
            part_spec.check(part)
    elif isinstance(spec, dict):
        if not isinstance(arg, dict) or spec.keys() != arg.keys():
            raise _nested_differently(spec, arg)
        fitted = {name: _fitted(inner, arg[name]) for name, inner in spec.items()}
        return fitted if type(arg) is dict else arg
    elif isinstance(spec, tuple | list):
        if not isinstance(arg, tuple | list) or len(spec) != len(arg):
            raise _nested_differently(spec, arg)
        items = [_fitted(s, a) for s, a in zip(spec, arg, strict=True)]
        return type(arg)(items) if type(arg) in (tuple, list) else arg
    return arg


def _is_list_of_numbers(arg: Any) -> bool:
    is_list = isinstance(arg, list | tuple)
    return is_list and all(is_array_like(leaf) for leaf in trees.leaves(arg))


def _nested_differently(spec: Any, arg: Any) -> TypeError:
    return TypeError(
        "An argument must be nested as its entry in `input_signature`: the same keys, "
        f"the same lengths. Received: {trees.flatten(arg)[1]} for {spec}."
    )


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
