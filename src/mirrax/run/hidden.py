"""Results that hide what was traced from JAX, so that it would never be computed."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import Any

import jax

from mirrax import jax_internals
from mirrax.trees import Leaf

# An object with more inside than this is no result of a step.
_MAX_VISITED = 10_000
_OPAQUE = (Leaf, jax.Array, type, types.ModuleType, str, bytes)


def refuse_hidden_tracers(leaf: Any) -> None:
    """Raises if `leaf`, which JAX takes for one object, holds values of this trace."""
    trace = jax_internals.current_trace()
    for path, value in reachable(leaf):
        if jax_internals.is_traced_in(value, trace):
            kind = type(leaf).__name__
            raise TypeError(
                "A compiled function returns arrays, plain objects, and containers "
                f"that JAX knows. Received: a {kind} with a traced value in "
                f"`{kind}{path}`, which would stay a tracer. {_fix(leaf)}"
            )


def _fix(leaf: Any) -> str:
    if dataclasses.is_dataclass(leaf):
        return (
            "Decorate the class with `@jax.tree_util.register_dataclass`, or return a "
            "tuple or a dict."
        )
    return (
        "Register the class with `jax.tree_util.register_pytree_node`, or return a "
        "tuple or a dict."
    )


def reachable(root: Any) -> Iterator[tuple[str, Any]]:
    """Yields what is reachable from an object, each with the way to it."""
    seen: set[int] = set()
    waiting = [("", root)]
    while waiting and len(seen) < _MAX_VISITED:
        path, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield path, value
        if not isinstance(value, _OPAQUE):
            waiting.extend((path + step, inner) for step, inner in _inside(value))


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", inner) for index, inner in enumerate(value))
    elif isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        cells = value.__closure__ or ()
        for name, cell in zip(names, cells, strict=True):
            yield f".{name}", _contents(cell)
    else:
        yield from ((f".{name}", inner) for name, inner in _attributes(value))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # Not filled yet.
        return None
