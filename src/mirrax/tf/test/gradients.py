"""Gradients by differentiation and by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax.tf.tensors.tensor import tensor


def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Returns the Jacobians of `f` for each argument: exact ones, and numeric ones.

    Each has a row for each element of the result and a column for each of the argument.
    """
    if not isinstance(x, list | tuple):
        raise ValueError(
            f"`x` must be a list or tuple of the arguments of `f`. Received: {x!r}. "
            "Pass `[x]` for a single argument."
        )
    arguments = [tensor(argument) for argument in x]
    step = 1 / 1024 if delta is None else delta
    indices = range(len(arguments))
    return (
        tuple(_exact(f, arguments, index) for index in indices),
        tuple(_numeric(f, arguments, index, step) for index in indices),
    )


def _exact(f: Callable[..., Any], x: list[Any], index: int) -> np.ndarray:
    # In reverse, because functions with a custom gradient have no forward derivative.
    found = jax.jacrev(lambda value: f(*_replaced(x, index, value)))(x[index])
    return np.asarray(found, x[index].dtype).reshape(-1, x[index].size)


def _numeric(
    f: Callable[..., Any], x: list[Any], index: int, step: float
) -> np.ndarray:
    given = np.asarray(x[index])
    columns = []
    for column in range(given.size):
        change = np.zeros(given.size, given.dtype)
        change[column] = step
        change = change.reshape(given.shape)
        higher = np.asarray(f(*_replaced(x, index, tensor(given + change))))
        lower = np.asarray(f(*_replaced(x, index, tensor(given - change))))
        columns.append((higher - lower).reshape(-1) / (2 * step))
    size = np.asarray(f(*x)).size
    return np.asarray(columns, given.dtype).reshape(given.size, size).T


def _replaced(x: list[Any], index: int, value: Any) -> list[Any]:
    return [*x[:index], value, *x[index + 1 :]]
