"""Derivatives of the collectives of eager replicas.

Collectives are linear. Forward-mode derivatives are the collective of the tangents;
reverse mode is a collective of the cotangents. The collectives passed in are
differentiable again, for second derivatives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from mirrax._jax.jaxprs import Primitive
from mirrax._jax.traces import evaluated

Reduce = Callable[[list[jax.Array]], list[jax.Array]]
Gather = Callable[..., list[jax.Array]]


def differentiable_reduce(reduce: Reduce, values: list[jax.Array]) -> list[jax.Array]:
    """Returns `reduce(values)`; its gradient is `reduce` of the gradients.

    Args:
        reduce: Combines arrays over the replicas; differentiable.
    """
    return list(collective_p.bind(*values, collective=_Collective(reduce, reduce)))


def differentiable_gather(
    gather: Gather, add_up: Reduce, values: list[jax.Array], axis: int, replica_id: int
) -> list[jax.Array]:
    """Returns `gather(values, axis)`.

    Its gradient is this replica's slice of the gradients that all replicas have.

    Args:
        gather: Joins arrays of the replicas; differentiable.
        add_up: Adds arrays up over the replicas; differentiable.
    """
    with evaluated():
        sizes = gather([jnp.array([value.shape[axis]]) for value in values], 0)
    pieces = [
        _Piece(
            start=int(size[:replica_id].sum()),
            stop=int(size[: replica_id + 1].sum()),
            total=int(size.sum()),
        )
        for size in sizes
    ]
    combine = functools.partial(gather, axis=axis)
    collective = _Collective(combine, add_up, axis, tuple(pieces))
    return list(collective_p.bind(*values, collective=collective))


class _Piece(NamedTuple):
    """This replica's rows in a gathered array, and the number of all rows."""

    start: int
    stop: int
    total: int


@dataclasses.dataclass(frozen=True, eq=False)
class _Collective:
    """A linear function of the arrays of all replicas.

    Args:
        combine: Returns this replica's results for its values.
        add_up: Adds up the cotangents of the results over the replicas.
        axis: The dimension along which a gather joins arrays.
        pieces: This replica's part of each gathered array; None for a reduction.
    """

    combine: Reduce
    add_up: Reduce
    axis: int = 0
    pieces: tuple[_Piece, ...] | None = None

    def transposed(self, cotangents: list[jax.Array]) -> list[jax.Array]:
        """Returns the cotangents of the values for those of the results."""
        totals = self.add_up(cotangents)
        if self.pieces is None:
            return totals
        return [
            jax.lax.slice_in_dim(total, piece.start, piece.stop, axis=self.axis)
            for total, piece in zip(totals, self.pieces, strict=True)
        ]

    def shape(self, index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a result, for that of the value."""
        sizes = list(shape)
        if self.pieces is not None:
            sizes[self.axis] = self.pieces[index].total
        return tuple(sizes)

    def only(self, indices: Sequence[int]) -> _Collective:
        """Returns the same for some of the arrays."""
        if self.pieces is None:
            return self
        pieces = tuple(self.pieces[index] for index in indices)
        return dataclasses.replace(self, pieces=pieces)


collective_p = Primitive("eager_collective")
"""A collective of eager replicas, in a derivative."""
collective_p.multiple_results = True


def _evaluate(*values: Any, collective: _Collective) -> list[Any]:
    with evaluated():
        return collective.combine([jnp.asarray(value) for value in values])


def _avals(*values: Any, collective: _Collective) -> list[Any]:
    # Only called for tangents, which are floats and keep their dtype.
    return [
        jax.core.ShapedArray(collective.shape(index, value.shape), value.dtype)
        for index, value in enumerate(values)
    ]


def _differentiate(
    values: Sequence[Any], tangents: Sequence[Any], *, collective: _Collective
) -> tuple[list[Any], list[Any]]:
    results = collective_p.bind(*values, collective=collective)
    # A tangent that is zero here may not be so on other replicas, which wait for it.
    floats = [i for i, value in enumerate(values) if _is_float(value)]
    given = [ad.instantiate_zeros(tangents[index]) for index in floats]
    moved = collective_p.bind(*given, collective=collective.only(floats))
    found = dict(zip(floats, moved, strict=True))
    return results, [
        found.get(index, ad.Zero(jax.typeof(result).to_tangent_aval()))
        for index, result in enumerate(results)
    ]


def _transpose(
    cotangents: Sequence[Any], *values: Any, collective: _Collective
) -> list[Any]:
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    moved = collective.transposed(given)
    return [
        cotangent if ad.is_undefined_primal(value) else None
        for value, cotangent in zip(values, moved, strict=True)
    ]


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "The derivative of a collective in an eager `strategy.run` is itself a "
        "collective. Received: one inside a JAX transformation (jit, vmap, ...), where "
        "replicas cannot communicate. Decorate the function given to `run` with "
        "`@mirrax.function`."
    )


def _is_float(value: Any) -> bool:
    return bool(jnp.issubdtype(jax.typeof(value).dtype, jnp.inexact))


collective_p.def_impl(_evaluate)
collective_p.def_abstract_eval(_avals)
ad.primitive_jvps[collective_p] = _differentiate
ad.primitive_transposes[collective_p] = _transpose
batching.primitive_batchers[collective_p] = _refuse
mlir.register_lowering(collective_p, _refuse)
