"""Gradients of a batch that is too big for one go, piece by piece."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mirrax import trees
from mirrax.context import stack
from mirrax.options import ReduceOp
from mirrax.trees import Tree
from mirrax.variables import foreign_libraries
from mirrax.variables.overlay import ValueOverlay
from mirrax.variables.variable import Variable

Weight = Callable[..., Any]


def accumulate_gradients(
    step: Callable[..., Tree],
    micro_batches: int,
    weight: Weight | None = None,
) -> Callable[..., Tree]:
    """Returns `step` over a whole batch, computed in smaller pieces.

    `step` takes arrays with one row for each example, and returns what it computes of
    one piece: a loss, gradients, counts, nested as you like. The new function cuts its
    arguments into pieces, and gives the mean over all examples of all replicas, as if
    there had been one big batch; whole numbers are added up instead. The replicas meet
    once, after the last piece, so do not reduce the result again.

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
        dtypes: list[Any] = []

        def contribution(piece: Sequence[Any], size: int) -> Any:
            own_args, own_kwargs = trees.unflatten(structure, piece)
            result = step(*own_args, **own_kwargs)
            dtypes[:] = [jnp.asarray(leaf).dtype for leaf in jax.tree.leaves(result)]
            factor = size if weight is None else weight(*own_args, **own_kwargs)
            return _scaled(result, jnp.asarray(factor, jnp.float32))

        totals = [
            _add_up(functools.partial(contribution, size=group.size), leaves, group)
            for group in _groups(rows, micro_batches)
        ]
        sums, factor = functools.reduce(_add, totals)
        frame = stack.frame()
        if isinstance(frame, stack.Replica):
            sums, factor = frame.context.all_reduce(ReduceOp.SUM, (sums, factor))
        return _divided(sums, factor, dtypes)

    return accumulated


class _Group(NamedTuple):
    """Pieces of one size that stand one after another."""

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
    # A replica without rows computes once, for the form of the result.
    found = [group for group in groups if group.size and group.num_pieces]
    return found or [_Group(0, 0, 1)]


def _add_up(contribution: Callable[..., Any], leaves: list[Any], group: _Group) -> Any:
    """Returns the sum over the pieces of a group."""
    if stack.overlay() is None:
        pieces = [_piece(leaves, group, index) for index in range(group.num_pieces)]
        return functools.reduce(_add, map(contribution, pieces))
    return _scan(contribution, leaves, group)


def _scan(contribution: Callable[..., Any], leaves: list[Any], group: _Group) -> Any:
    """Does so in a loop of the program, through which variables are carried."""
    outer = stack.overlay()
    written: list[Variable] = []

    def one(values: list[Any], index: Any) -> tuple[list[Any], Any]:
        overlay = ValueOverlay(dict(zip(written, values, strict=True)), outer)
        with foreign_libraries.routed(), stack.overlaid(overlay):
            result = contribution(_piece(leaves, group, index))
        found.update(overlay.written)
        return [overlay.values[variable] for variable in written], result

    # The variables that a piece writes are known once it has been traced.
    found: dict[Variable, None] = {}
    while True:
        start = [outer.read(variable) for variable in written]
        shapes = jax.eval_shape(lambda values: one(values, 0)[1], start)
        if len(found) == len(written):
            break
        written[:] = found

    def body(carry: Any, index: Any) -> tuple[Any, None]:
        values, total = carry
        values, added = one(values, index)
        return (values, _add(total, added)), None

    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    (values, total), _ = jax.lax.scan(
        body, (start, zeros), jnp.arange(group.num_pieces)
    )
    for variable, value in zip(written, values, strict=True):
        outer.write(variable, value)
    return total


def _piece(leaves: Sequence[Any], group: _Group, index: Any) -> list[Any]:
    """Returns the rows of one piece of a group."""
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
        # The mean of nothing is no number, and counts for nothing.
        return jnp.where(factor == 0, 0, wide * factor)

    return jax.tree.map(scaled, result), factor


def _divided(sums: Tree, factor: jax.Array, dtypes: Sequence[Any]) -> Tree:
    """Returns the means that sums amount to."""
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
    """Returns how many rows the arguments have."""
    sizes = {leaf.shape[0] for leaf in leaves if _has_rows(leaf)}
    if len(sizes) != 1:
        raise ValueError(
            "The arguments of an accumulated step have one row for each example. "
            f"Received: arrays with {sorted(sizes) or 'no'} rows. Close over what is "
            "no batch, such as parameters."
        )
    return int(next(iter(sizes)))
