"""One way to write each call, so that equal calls share one program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

_PLAIN = (bool, int, float, complex, str, bytes)


class Spelling:
    """How the arguments of one function are written.

    Arguments come by position where that is possible, and those that equal their
    default are left out.

    Args:
        fn: The function.

    >>> spelling = Spelling(lambda x, y=2: x)
    >>> spelling.unify((), {"x": 1, "y": 2})
    ((1,), {})
    >>> spelling.unify((1,), {"y": 3})
    ((1, 3), {})
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._signature = _named_signature(fn)
        self._defaults = {
            parameter.name: parameter.default
            for parameter in self._signature.parameters.values()
            if parameter.default is not inspect.Parameter.empty
        }

    def unify(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of a call in the one way to write them."""
        if not (kwargs or self._defaults):
            return tuple(args), kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # The call itself says it better.
            return tuple(args), kwargs
        for name, default in self._defaults.items():
            if name in bound.arguments and _is_same(bound.arguments[name], default):
                del bound.arguments[name]
        return bound.args, bound.kwargs


def _named_signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Returns the signature; an empty one where arguments have no names to go by."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # What some builtins say.
        return inspect.Signature()
    nameless = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    is_named = not any(kind in nameless for kind in kinds)
    return signature if is_named else inspect.Signature()


def _is_same(given: Any, default: Any) -> bool:
    if given is default:
        return True
    return type(given) is type(default) and type(given) in _PLAIN and given == default
