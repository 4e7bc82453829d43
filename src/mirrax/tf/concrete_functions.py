"""A function with some of its arguments settled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax import TensorSpec
from mirrax.tf import nest


class ConcreteFunction:
    """A function for arrays of certain shapes and dtypes, everything else settled.

    Args:
        fn: The function.
        python_function: Its Python, which knows the names of arguments.
        args: Descriptions in place of arrays, and settled objects.
        kwargs: The same, by name.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        python_function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        bound = inspect.signature(python_function).bind(*args, **kwargs)
        self._fn = fn
        self._name = getattr(python_function, "__name__", repr(python_function))
        self._structure = (bound.args, bound.kwargs)
        self._leaves = [_described(leaf) for leaf in nest.flatten(self._structure)]
        self._open = [
            index
            for index, leaf in enumerate(self._leaves)
            if isinstance(leaf, TensorSpec)
        ]
        self._names = _names_of(bound.arguments)

    @property
    def structured_input_signature(self) -> Any:
        """The arguments, by position and by name, with descriptions of arrays."""
        return nest.pack_sequence_as(self._structure, self._leaves)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = nest.flatten(args)
        for name in self._names[len(given) :]:
            if name in kwargs:
                given.append(kwargs.pop(name))
        if kwargs or len(given) != len(self._open):
            raise TypeError(
                f"A concrete function takes the arrays that it was made for: "
                f"{[self._leaves[index] for index in self._open]}. Received: "
                f"{len(given)} of them, and {sorted(kwargs)}. Leave out what is no "
                f"array, or call {self._name} itself."
            )
        filled = list(self._leaves)
        for index, value in zip(self._open, given, strict=True):
            self._leaves[index].check(value)
            filled[index] = value
        own_args, own_kwargs = nest.pack_sequence_as(self._structure, filled)
        return self._fn(*own_args, **own_kwargs)

    def __repr__(self) -> str:
        args, kwargs = self.structured_input_signature
        return f"<ConcreteFunction {self._name} for {args}, {kwargs}>"


def _described(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return TensorSpec(leaf.shape, leaf.dtype)
    return leaf


def _names_of(arguments: dict[str, Any]) -> list[str]:
    """Returns the names under which arrays can be given, in the order of the arrays."""
    names = []
    for name, value in arguments.items():
        found = [_described(leaf) for leaf in nest.flatten(value)]
        specs = [leaf for leaf in found if isinstance(leaf, TensorSpec)]
        names += [spec.name or name for spec in specs]
    return names


class BoundFunction(functools.partial[Any]):
    """A `function` that is a method, bound to its object."""

    @property
    def python_function(self) -> Callable[..., Any]:
        """The Python function, without the object."""
        return self.func.python_function  # type: ignore[attr-defined,no-any-return]

    @property
    def input_signature(self) -> tuple[Any, ...] | None:
        """Descriptions that the arguments after the object must fit."""
        return self.func.input_signature  # type: ignore[attr-defined,no-any-return]

    @property
    def trace_count(self) -> int:
        """How often the method was traced, for whichever object."""
        return self.func.trace_count  # type: ignore[attr-defined,no-any-return]

    def experimental_get_tracing_count(self) -> int:
        """Returns how often the method was traced, for whichever object."""
        return self.func.experimental_get_tracing_count()  # type: ignore[attr-defined,no-any-return]

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the method for arguments such as these."""
        return self.func.get_concrete_function(*self.args, *args, **kwargs)  # type: ignore[attr-defined,no-any-return]
