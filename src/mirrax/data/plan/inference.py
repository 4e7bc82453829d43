"""Infers the output spec of a function by calling it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax.data.plan import columns as cols
from mirrax.data.plan.node import Node, rewrite
from mirrax.data.plan.streams import Stream
from mirrax.data.plan.user_functions import call_with_element
from mirrax.values.tensor_spec import TensorSpec


def spec_of_function(function: Callable[..., Any], source: Node, mapped: Node) -> Any:
    """Returns the spec of `function` of an element of `source`.

    Calls it with zeros and with ones, using different values for unknown dimensions;
    dimensions that differ in the results are unknown, too. If that fails, uses the
    first element, and a longer one.
    """
    if any(leaf.shape is None for leaf in jax.tree.leaves(source.spec)):
        return jax.tree.map(
            lambda leaf: TensorSpec(None, leaf.dtype), spec_of_first(mapped)
        )
    try:
        results = [
            call_with_element(
                function, source.structure, _filled(source.spec, size, value)
            )
            for size, value in ((2, 0), (3, 1))
        ]
        return common_spec([jax.tree.map(_spec_of_value, r) for r in results])
    except Exception:
        return _spec_of_two_sizes(function, source) or spec_of_first(mapped)


def _spec_of_two_sizes(function: Callable[..., Any], source: Node) -> Any:
    """Returns the spec of `function` of the first element and of a longer one.

    None if all sizes are known, or the function takes no other sizes.
    """
    shapes = [leaf.shape for leaf in jax.tree.leaves(source.spec)]
    if not any(None in shape for shape in shapes):
        return None
    with contextlib.suppress(Exception):
        stream, row = _open_first(source)
        longer = map(_lengthened, row, shapes)
        results = [
            call_with_element(function, stream.structure, leaves)
            for leaves in (row, list(longer))
        ]
        return common_spec([jax.tree.map(_spec_of_value, r) for r in results])
    return None


def _lengthened(value: Any, shape: Sequence[int | None]) -> Any:
    """Returns an array whose last row is there twice, along each unknown dimension."""
    for axis, size in enumerate(shape):
        if size is None:
            last = np.take(value, [-1], axis)
            value = np.concatenate([value, last], axis)
    return value


def spec_of_first(mapped: Node) -> Any:
    """Returns the spec of the first element of a node, without filling buffers."""
    stream, row = _open_first(mapped)
    return None if row is None else spec_of_row(stream, row)


def _open_first(node: Node) -> tuple[Stream, Any]:
    """Returns a stream and the leaves of its first element; None if it has none."""
    stream = rewrite(node, _source_if_reordered).open((0,))
    columns = stream.take(1)
    return stream, None if columns is None else cols.rows_of(columns)[0]


def _source_if_reordered(node: Any) -> Node:
    return node.source if node.only_reorders else node


def spec_of_row(stream: Stream, row: Sequence[Any]) -> Any:
    """Returns the spec of an element of a stream, given its leaves."""
    return jax.tree.unflatten(stream.structure, map(_spec_of_value, row))


def common_spec(specs: Sequence[Any]) -> Any:
    """Merges specs: dimensions that differ become unknown.

    Those of datasets without elements may be None.
    """
    known = [spec for spec in specs if spec is not None]
    return jax.tree.map(_common_leaf, *known) if known else None


def _common_leaf(first: TensorSpec, *rest: TensorSpec) -> TensorSpec:
    shape: Any = first.shape
    for other in rest:
        if shape is None or other.shape is None or len(other.shape) != len(shape):
            shape = None
        else:
            shape = tuple(
                a if a == b else None for a, b in zip(shape, other.shape, strict=True)
            )
    return TensorSpec(shape, first.dtype)


def _filled(spec: Any, size: int, value: int) -> list[Any]:
    leaves: list[TensorSpec] = jax.tree.leaves(spec)
    if any(leaf.dtype == cols.STRING for leaf in leaves):
        raise TypeError
    shapes = [[size if s is None else s for s in leaf.shape or ()] for leaf in leaves]
    pairs = zip(shapes, leaves, strict=True)
    return [np.full(shape, value, leaf.dtype) for shape, leaf in pairs]


def _spec_of_value(value: Any) -> TensorSpec:
    is_text = isinstance(value, bytes | str)
    dtype = cols.STRING if is_text else np.asarray(value).dtype
    return TensorSpec(np.shape(value), dtype)
