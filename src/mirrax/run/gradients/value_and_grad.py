"""Gradients with respect to variables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from mirrax import trees
from mirrax._jax.traces import is_staging
from mirrax.context import stack
from mirrax.trees import Tree
from mirrax.variables import foreign_libraries, replica_writes
from mirrax.variables.overlay import ValueOverlay
from mirrax.variables.variable import Variable


def value_and_grad(
    fn: Callable[..., Any], variables: Tree, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns a function that gives the value of `fn` and its gradients.

    `fn` may read any variables, and returns a scalar. Inside `strategy.run`
    the gradients are those of one replica, until they are all-reduced.

    Args:
        fn: The function, of any arguments.
        variables: A variable, or a structure of them.
        has_aux: Whether `fn` returns a pair, of which only the first is differentiated.

    >>> import mirrax
    >>> w = mirrax.Variable(3.0)
    >>> value_and_grad(lambda x: x * w * w, w)(2.0)
    (Array(18., dtype=float32), Array(12., dtype=float32))
    """
    given, structure = foreign_libraries.flatten_sources(variables)
    sources = [_sources_of(leaf) for leaf in given]
    listed = [variable for source in sources for variable in source.variables]
    # One that is listed twice has one value, and its gradient goes to both places.
    leaves = list(dict.fromkeys(listed))

    @functools.wraps(fn)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        outer = stack.overlay()

        def pure(values: list[jax.Array]) -> tuple[Any, Any]:
            overlay = ValueOverlay(dict(zip(leaves, values, strict=True)), outer)
            is_eager = overlay.is_eager and not is_staging()
            place = stack.derivative_trace_key() if is_eager else None
            with foreign_libraries.routed(), stack.overlaid(overlay, place):
                result = fn(*args, **kwargs)
            value, aux = result if has_aux else (result, None)
            written[:] = overlay.written
            return value, (aux, [overlay.values[v] for v in written])

        written: list[Variable] = []
        current = [variable.read_value() for variable in leaves]
        transformed = jax.value_and_grad(pure, has_aux=True)
        (value, (aux, new)), gradients = transformed(current)
        replica_writes.propagate_writes(dict(zip(written, new, strict=True)))
        found = dict(zip(leaves, gradients, strict=True))
        assembled = foreign_libraries.assemble(sources, [found[v] for v in listed])
        gradients = trees.unflatten(structure, assembled)
        return ((value, aux) if has_aux else value), gradients

    return differentiated


def _sources_of(leaf: Any) -> foreign_libraries.Sources:
    found = foreign_libraries.sources_of(leaf)
    if found is None:
        raise TypeError(
            "`value_and_grad` differentiates by variables. Received: "
            f"{type(leaf).__name__} among `variables`. For arguments that are "
            "arrays, use `jax.value_and_grad`."
        )
    return found
