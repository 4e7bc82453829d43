"""`tf.autograph`: Python's control flow on tensors, in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrax.tf.autograph import conversion, transpiler
from mirrax.tf.autograph import experimental as experimental


def to_graph(
    entity: Callable[..., Any],
    recursive: bool = True,
    experimental_optional_features: Any = None,
) -> Callable[..., Any]:
    """Returns a function whose control flow on tensors can be compiled."""
    return conversion.marked(
        transpiler.transformed(_function(entity), conversion.operators_namespace)
    )


def to_code(
    entity: Callable[..., Any],
    recursive: bool = True,
    experimental_optional_features: Any = None,
) -> str:
    """Returns the source of `to_graph(entity)`."""
    return transpiler.source_of(_function(entity))


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Does nothing: what cannot be compiled is logged once, as a warning."""


def trace(*args: Any) -> None:
    """Prints its arguments while a function is traced."""
    print(*args)


def _function(entity: Any) -> Any:
    function, _ = conversion.function_of(getattr(entity, "python_function", entity))
    if function is None:
        raise ValueError(
            f"`tf.autograph` converts functions and methods. Received: {entity!r}."
        )
    return function
