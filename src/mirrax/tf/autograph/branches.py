"""`if` on a traced tensor, as `mirrax.cond`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax.tf.autograph.state import (
    Value,
    difference,
    is_missing_return,
    is_same,
    is_tensor,
    tensors_of,
    values_of,
)
from mirrax.tf.errors import NotCompilable


def truth(value: Any) -> Any:
    """Returns a condition; of a variable, its value."""
    return value.read_value() if isinstance(value, mirrax.Variable) else value


def is_traced(value: Any) -> bool:
    """Returns whether a condition is known only when the program runs."""
    # A list of traced tensors is a condition that is known.
    return isinstance(value, jax.core.Tracer)


def condition(value: Any, what: str) -> Any:
    """Returns a traced condition; raises unless it is a boolean scalar."""
    if value.shape != () or value.dtype != jnp.bool_:
        raise ValueError(
            f"condition of {what} expected to be `tf.bool` scalar, got a tensor of "
            f"shape {value.shape} and dtype {value.dtype}. Use `tf.reduce_any`, "
            "`tf.reduce_all` or `tf.cast`; to check for None, use `is not None`."
        )
    return value


def choose(
    pred: Any,
    branches: tuple[Callable[[], Sequence[Any]], Callable[[], Sequence[Any]]],
    names: Sequence[str],
) -> tuple[Any, ...]:
    """Returns the variables `names` after one of two branches.

    Args:
        pred: The condition, traced.
        branches: What gives the variables, if it holds and if not.
        names: Their names.
    """
    found: list[list[Value]] = []

    def traced(branch: Callable[[], Sequence[Any]]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            values = values_of(names, branch())
            found.append(values)
            if len(found) > 1:
                for pair in zip(*found, strict=True):
                    _require_equal(*pair)
            return tensors_of(values)

        return run

    tensors = iter(mirrax.cond(pred, *map(traced, branches)))
    main, other = found
    return tuple(_merged(*pair, tensors) for pair in zip(main, other, strict=True))


def _merged(main: Value, other: Value, tensors: Iterator[Any]) -> Any:
    """Returns a variable after the branches."""

    def merged(one: Any, another: Any) -> Any:
        if not is_tensor(one):
            return one
        found = next(tensors)
        # Whether a loop goes on, or the function has returned, may be known still.
        is_known = type(one) is bool and type(another) is bool and one == another
        return one if is_known else found

    leaves = [merged(*pair) for pair in zip(main.leaves, other.leaves, strict=True)]
    return jax.tree.unflatten(main.structure, leaves)


def _require_equal(main: Value, other: Value) -> None:
    """Raises unless a variable has the same kind after both branches."""
    name = main.name
    for branch, value, another in (("main", main, other), ("else", other, main)):
        if value.is_undefined and not another.is_undefined:
            if is_missing_return(value.leaves[0]):
                raise ValueError(
                    f"the {branch} branch must also have a return statement."
                )
            raise ValueError(
                f"'{name}' must also be initialized in the {branch} branch"
            )
        if value.is_none and not another.is_none:
            raise ValueError(f"'{name}' is None at the end of the {branch} branch.")
    if main.structure != other.structure:
        raise TypeError(
            f"'{name}' must have the same nested structure in the main and else "
            f"branches. Received: {main.structure} and {other.structure}."
        )
    for one, another in zip(main.leaves, other.leaves, strict=True):
        if not is_tensor(one) and not is_tensor(another):
            if not is_same(one, another):
                raise NotCompilable(
                    f"'{name}' is {one!r} in the main branch, but {another!r} in the "
                    "else branch; only tensors can differ."
                )
        elif not is_tensor(one) or not is_tensor(another):
            raise TypeError(
                f"'{name}' must be a tensor in both branches. Received: {one!r} in the "
                f"main branch, and {another!r} in the else branch."
            )
        else:
            places = ("in the main branch", "in the else branch")
            found = difference(name, one, another, places)
            if found is not None:
                raise (TypeError if found[0] == "dtype" else NotCompilable)(found[1])
