"""Infers the output spec of a function by calling it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax.data.plan import columns as cols
from mirrax.data.plan.node import Node, Stream
from mirrax.values.tensor_spec import TensorSpec


def spec_of_function(function: Callable[..., Any], source: Node, mapped: Node) -> Any:
    """Returns the spec of `function` of an element of `source`.

    Calls it with zeros and with ones, using different values for unknown dimensions;
    dimensions that differ in the results are unknown, too. If that fails, uses the
    first element.
    """
    if any(leaf.shape is None for leaf in jax.tree.leaves(source.spec)):
        return jax.tree.map(
            lambda leaf: TensorSpec(None, leaf.dtype), spec_of_first(mapped)
        )
    try:
        small, large = (
            cols.call(function, source.structure, _filled(source.spec, size, value))
            for size, value in ((2, 0), (3, 1))
        )
        return jax.tree.map(_common_spec, small, large)
    except Exception:
        return spec_of_first(mapped)


def spec_of_first(mapped: Node) -> Any:
    """Returns the spec of the first element of a node."""
    stream = mapped.open((0,))
    columns = stream.take(1)
    return None if columns is None else spec_of_row(stream, cols.rows_of(columns)[0])


def spec_of_row(stream: Stream, row: Sequence[Any]) -> Any:
    """Returns the spec of an element of a stream, given its leaves."""
    specs = [TensorSpec(np.shape(leaf), _dtype(leaf)) for leaf in row]
    return jax.tree.unflatten(stream.structure, specs)


def _filled(spec: Any, size: int, value: int) -> list[Any]:
    leaves: list[TensorSpec] = jax.tree.leaves(spec)
    if any(leaf.dtype == cols.STRING for leaf in leaves):
        raise TypeError
    shapes = [[size if s is None else s for s in leaf.shape or ()] for leaf in leaves]
    pairs = zip(shapes, leaves, strict=True)
    return [np.full(shape, value, leaf.dtype) for shape, leaf in pairs]


def _common_spec(small: Any, large: Any) -> TensorSpec:
    shape = tuple(
        a if a == b else None
        for a, b in zip(np.shape(small), np.shape(large), strict=True)
    )
    return TensorSpec(shape, _dtype(small))


def _dtype(value: Any) -> np.dtype[Any]:
    if isinstance(value, bytes | str):
        return cols.STRING
    return np.asarray(value).dtype
