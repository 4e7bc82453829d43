"""Gradient accumulation: a large batch, computed in micro-batches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mirrax import trees
from mirrax.context import stack
from mirrax.options import ReduceOp
from mirrax.run import control_flow
from mirrax.trees import Tree

Weight = Callable[..., Any]


def accumulate_gradients(
    step: Callable[..., Tree], micro_batches: int, weight: Weight | None = None
) -> Callable[..., Tree]:
    """Returns `step` over a whole batch, computed in smaller pieces.

    `step` takes arrays with one row for each example, and returns what it computes of
    one piece: a loss, gradients, counts, nested as you like. The new function cuts its
    arguments into pieces, and gives the mean over all examples of all replicas, as if
    there had been one big batch; whole numbers are added up instead. The replicas
    communicate once, after the last piece; do not reduce the result again. A loss is
    the plain mean of its piece.

    Args:
        step: The function of one piece.
        micro_batches: Into how many pieces the rows are cut; their sizes differ by at
            most one.
        weight: Gives the weight of a piece from its arguments, such as the number of
            tokens that count; by default the number of rows.

    >>> import mirrax
    >>> w = mirrax.Variable(1.0)
    >>> step = mirrax.value_and_grad(lambda x: ((w * x) ** 2).mean(), w)
    >>> loss, gradient = accumulate_gradients(step, micro_batches=3)(jnp.arange(4.0))
    >>> float(loss), float(gradient)
    (3.5, 7.0)
    """
    if micro_batches < 1:
        raise ValueError(
            "`micro_batches` is the number of pieces, at least 1. Received: "
            f"{micro_batches}."
        )

    @functools.wraps(step)
    def accumulated(*args: Any, **kwargs: Any) -> Tree:
        leaves, structure = trees.flatten((args, kwargs))
        rows = _rows(leaves)
        frame = stack.frame()
        inside = frame
        if isinstance(frame, stack.Replica):
            several = frame.context.num_replicas_in_sync > 1
            inside = dataclasses.replace(frame, is_in_piece=several)
        dtypes: list[Any] = []

        def contribution(piece: Sequence[Any], size: int) -> Any:
            own_args, own_kwargs = trees.unflatten(structure, piece)
            with stack.entered(inside):
                result = step(*own_args, **own_kwargs)
            dtypes[:] = [jnp.asarray(leaf).dtype for leaf in jax.tree.leaves(result)]
            factor = size if weight is None else weight(*own_args, **own_kwargs)
            return _scaled(result, jnp.asarray(factor, jnp.float32))

        totals = [
            _add_up(functools.partial(contribution, size=group.size), leaves, group)
            for group in _groups(rows, micro_batches)
        ]
        sums, factor = functools.reduce(_add, totals)
        if isinstance(frame, stack.Replica):
            sums, factor = frame.context.all_reduce(ReduceOp.SUM, (sums, factor))
        return _divided(sums, factor, dtypes)

    return accumulated


class _Group(NamedTuple):
    """Consecutive pieces of one size."""

    start: int
    size: int
    num_pieces: int


def _groups(rows: int, num_pieces: int) -> list[_Group]:
    """Returns how rows are cut into pieces whose sizes differ by at most one.

    >>> [(group.size, group.num_pieces) for group in _groups(7, 3)]
    [(3, 1), (2, 2)]
    """
    size, extra = divmod(rows, num_pieces)
    groups = [
        _Group(0, size + 1, extra),
        _Group(extra * (size + 1), size, num_pieces - extra),
    ]
    # An empty replica runs one piece, to get the structure of the result.
    found = [group for group in groups if group.size and group.num_pieces]
    return found or [_Group(0, 0, 1)]


def _add_up(contribution: Callable[..., Any], leaves: list[Any], group: _Group) -> Any:
    """Returns the sum over the pieces of a group; in a program, with a loop of it."""
    if stack.overlay() is None:
        pieces = [_piece(leaves, group, index) for index in range(group.num_pieces)]
        return functools.reduce(_add, map(contribution, pieces))

    def body(total: Any, index: Any) -> tuple[Any, None]:
        return _add(total, contribution(_piece(leaves, group, index))), None

    shapes = control_flow.eval_shape(contribution, _piece(leaves, group, 0))
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return control_flow.scan(body, zeros, jnp.arange(group.num_pieces))[0]


def _piece(leaves: Sequence[Any], group: _Group, index: Any) -> list[Any]:
    start = group.start + index * group.size

    def cut(leaf: Any) -> Any:
        if not _has_rows(leaf):
            return leaf
        return jax.lax.dynamic_slice_in_dim(jnp.asarray(leaf), start, group.size)

    return [cut(leaf) for leaf in leaves]


def _scaled(result: Tree, factor: jax.Array) -> Any:
    """Returns what a piece adds to the sum: its result times its weight."""

    def scaled(leaf: Any) -> jax.Array:
        value = jnp.asarray(leaf)
        if not jnp.issubdtype(value.dtype, jnp.inexact):
            return value.astype(jnp.int32) if value.dtype == jnp.bool_ else value
        wide = value.astype(jnp.promote_types(value.dtype, jnp.float32))
        # The mean of an empty piece is NaN; ignore it.
        return jnp.where(factor == 0, 0, wide * factor)

    return jax.tree.map(scaled, result), factor


def _divided(sums: Tree, factor: jax.Array, dtypes: Sequence[Any]) -> Tree:
    divisor = jnp.where(factor == 0, 1, factor)
    leaves, structure = jax.tree.flatten(sums)
    means = [
        (value / divisor).astype(dtype)
        if jnp.issubdtype(value.dtype, jnp.inexact)
        else value
        for value, dtype in zip(leaves, dtypes, strict=True)
    ]
    return jax.tree.unflatten(structure, means)


def _add(one: Tree, other: Tree) -> Tree:
    return jax.tree.map(jnp.add, one, other)


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray) and leaf.ndim > 0


def _rows(leaves: Sequence[Any]) -> int:
    sizes = {leaf.shape[0] for leaf in leaves if _has_rows(leaf)}
    if len(sizes) != 1:
        raise ValueError(
            "The arguments of an accumulated step have one row for each example. "
            f"Received: arrays with {sorted(sizes) or 'no'} rows. Close over "
            "everything else, such as parameters."
        )
    return int(next(iter(sizes)))
