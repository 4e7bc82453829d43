"""Functions with fixed non-array arguments: `get_concrete_function`."""

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
    """A function for arrays of given shapes and dtypes; other arguments are fixed.

    Args:
        fn: The function.
        python_function: The Python function, for the names of its arguments.
        args: A `TensorSpec` for each array, and the fixed arguments.
        kwargs: The same, by keyword.
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
        if len({*self._names}) == len(self._names):
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            names = [name for name in self._names if name.isidentifier()]
            self.__signature__ = inspect.Signature(
                [inspect.Parameter(name, kind) for name in names]
            )

    @property
    def structured_input_signature(self) -> Any:
        """The positional and keyword arguments, with a `TensorSpec` for each array."""
        return nest.pack_sequence_as(self._structure, self._leaves)

    @property
    def named_inputs(self) -> list[TensorSpec]:
        """The arrays that it takes, each with its keyword name."""
        specs = [self._leaves[index] for index in self._open]
        return [
            TensorSpec(spec.shape, spec.dtype, name)
            for spec, name in zip(specs, self._names, strict=True)
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = nest.flatten(args)
        for name in self._names[len(given) :]:
            if name in kwargs:
                given.append(kwargs.pop(name))
        if kwargs or len(given) != len(self._open):
            raise TypeError(
                f"A concrete function takes only the arrays it was created for: "
                f"{[self._leaves[index] for index in self._open]}. Received: "
                f"{len(given)} arrays, and unexpected {sorted(kwargs)}. Omit other "
                f"arguments, or call {self._name} itself."
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
    """Returns the keyword name of each array, in the order of the arrays."""
    names = []
    for name, value in arguments.items():
        found = [_described(leaf) for leaf in nest.flatten(value)]
        specs = [leaf for leaf in found if isinstance(leaf, TensorSpec)]
        names += [spec.name or name for spec in specs]
    return names


class BoundFunction(functools.partial[Any]):
    """A `tf.function` that is a method, bound to its object."""

    def __getattr__(self, name: str) -> Any:
        # Not `__wrapped__`, whose arguments include the object.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.func, name)

    def traced_calls(self) -> list[tuple[Any, dict[str, Any]]]:
        """Returns the arguments that the method was traced with."""
        return self.func.traced_calls(*self.args)  # type: ignore[attr-defined]

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the method for arguments of these shapes and dtypes."""
        return self.func.get_concrete_function(*self.args, *args, **kwargs)  # type: ignore[attr-defined]
