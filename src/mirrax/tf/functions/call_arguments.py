"""Normalizes the arguments of a `tf.function`, so that equal calls share one trace.

Python numbers are static: they are constants of the trace.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from mirrax.tf import nest

_NUMBERS = (int, float, complex)
_PLAIN = (bool, *_NUMBERS, str, bytes)


class StaticNumber:
    """A Python number as a static argument: another number causes a retrace.

    Args:
        value: The number.
    """

    def __init__(self, value: complex) -> None:
        self.value = value
        self._key = (type(value), repr(value))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticNumber) and self._key == other._key

    def __repr__(self) -> str:
        return repr(self.value)


def with_static_numbers(tree: Any) -> Any:
    """Returns arguments with each Python number wrapped in a `StaticNumber`."""
    if not any(type(leaf) in _NUMBERS for leaf in nest.flatten(tree)):
        return tree
    return nest.map_structure(
        lambda leaf: StaticNumber(leaf) if type(leaf) in _NUMBERS else leaf, tree
    )


def taking_static_numbers(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `fn` as a function that unwraps each `StaticNumber`."""

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = nest.map_structure(
            lambda leaf: leaf.value if isinstance(leaf, StaticNumber) else leaf,
            (args, kwargs),
        )
        return fn(*args, **kwargs)

    called.__name__ = getattr(fn, "__name__", repr(fn))
    return called


class CallArguments:
    """Normalizes the calls of one function.

    Arguments become positional where possible; those equal to their default are
    dropped.

    Args:
        fn: The function.

    >>> arguments = CallArguments(lambda x, y=2: x)
    >>> arguments.unify((), {"x": 1, "y": 2})
    ((1,), {})
    >>> arguments.unify((1,), {"y": 3})
    ((1, 3), {})
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._signature = _named_signature(fn)
        self._defaults = {
            parameter.name: parameter.default
            for parameter in self._signature.parameters.values()
            if parameter.default is not inspect.Parameter.empty
        }

    def unify(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of a call in their normal form."""
        if not (kwargs or self._defaults):
            return tuple(args), kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # The call itself raises a better error.
            return tuple(args), kwargs
        for name, default in self._defaults.items():
            if name in bound.arguments and _is_same(bound.arguments[name], default):
                del bound.arguments[name]
        return bound.args, bound.kwargs

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raises a TypeError if the function does not take these arguments."""
        try:
            signature = inspect.signature(self._fn)
        except ValueError:  # Some builtins have none.
            return
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            name = getattr(self._fn, "__name__", repr(self._fn))
            raise TypeError(
                f"Binding inputs to tf.function failed due to `{error}`. Received: "
                f"{args} and {kwargs} for {name}{signature}."
            ) from error


def _named_signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Returns the signature, or an empty one if some parameters have no name."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # Some builtins have none.
        return inspect.Signature()
    nameless = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    is_named = not any(kind in nameless for kind in kinds)
    return signature if is_named else inspect.Signature()


def _is_same(given: Any, default: Any) -> bool:
    if given is default:
        return True
    return type(given) is type(default) and type(given) in _PLAIN and given == default
