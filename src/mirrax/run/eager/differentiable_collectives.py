"""Derivatives of the collectives of eager replicas.

Collectives are linear. Forward-mode derivatives are the collective of the tangents;
in reverse mode the replicas meet for the cotangents. Where those are differentiated
themselves, for second derivatives, what they call is differentiable too.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir
from typing_extensions import override

from mirrax._jax.jaxprs import Primitive
from mirrax._jax.traces import evaluated

Reduce = Callable[[list[jax.Array]], list[jax.Array]]
Gather = Callable[[list[jax.Array], int], list[jax.Array]]


def differentiable_reduce(reduce: Reduce, values: list[jax.Array]) -> list[jax.Array]:
    """Returns `reduce(values)`; its gradient is `reduce` of the gradients.

    Args:
        reduce: Combines arrays over the replicas, and is differentiable where it must.
        values: What this replica brings.
    """
    return list(meet_p.bind(*values, collective=_Reduce(reduce)))


def differentiable_gather(
    gather: Gather, add_up: Reduce, values: list[jax.Array], axis: int, replica_id: int
) -> list[jax.Array]:
    """Returns `gather(values, axis)`.

    Its gradient is this replica's slice of the gradients that all replicas have.

    Args:
        gather: Joins arrays of the replicas, and is differentiable where it must.
        add_up: Adds arrays up over the replicas, in the same way.
        values: What this replica brings.
        axis: The dimension along which arrays are joined.
        replica_id: The number of this replica.
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
    collective = _Gather(gather, add_up, axis, tuple(pieces))
    return list(meet_p.bind(*values, collective=collective))


class _Collective(abc.ABC):
    """A linear function of what all replicas bring, for some arrays at once."""

    @abc.abstractmethod
    def meet(self, values: list[jax.Array]) -> list[jax.Array]:
        """Returns what this replica gets for its values."""

    @abc.abstractmethod
    def transposed(self, cotangents: list[jax.Array]) -> list[jax.Array]:
        """Returns the cotangents of the values for those of the results."""

    @abc.abstractmethod
    def shape(self, index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a result, for that of the value."""

    @abc.abstractmethod
    def only(self, indices: Sequence[int]) -> _Collective:
        """Returns the same for some of the arrays."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Reduce(_Collective):
    reduce: Reduce

    @override
    def meet(self, values: list[jax.Array]) -> list[jax.Array]:
        return self.reduce(values)

    @override
    def transposed(self, cotangents: list[jax.Array]) -> list[jax.Array]:
        return self.reduce(cotangents)

    @override
    def shape(self, index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    @override
    def only(self, indices: Sequence[int]) -> _Collective:
        return self


@dataclasses.dataclass(frozen=True)
class _Piece:
    """Where in a gathered array, of how many rows, those of this replica are."""

    start: int
    stop: int
    total: int


@dataclasses.dataclass(frozen=True, eq=False)
class _Gather(_Collective):
    gather: Gather
    add_up: Reduce
    axis: int
    pieces: tuple[_Piece, ...]

    @override
    def meet(self, values: list[jax.Array]) -> list[jax.Array]:
        return self.gather(values, self.axis)

    @override
    def transposed(self, cotangents: list[jax.Array]) -> list[jax.Array]:
        return [
            jax.lax.slice_in_dim(total, piece.start, piece.stop, axis=self.axis)
            for total, piece in zip(self.add_up(cotangents), self.pieces, strict=True)
        ]

    @override
    def shape(self, index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = list(shape)
        sizes[self.axis] = self.pieces[index].total
        return tuple(sizes)

    @override
    def only(self, indices: Sequence[int]) -> _Collective:
        pieces = tuple(self.pieces[index] for index in indices)
        return dataclasses.replace(self, pieces=pieces)


meet_p = Primitive("meet")
"""A collective of eager replicas, in a derivative."""
meet_p.multiple_results = True


def _meet(*values: Any, collective: _Collective) -> list[Any]:
    with evaluated():
        return collective.meet([jnp.asarray(value) for value in values])


def _avals(*values: Any, collective: _Collective) -> list[Any]:
    # Asked for tangents only, which are floats, and remain what they are.
    return [
        jax.core.ShapedArray(collective.shape(index, value.shape), value.dtype)
        for index, value in enumerate(values)
    ]


def _differentiate(
    values: Sequence[Any], tangents: Sequence[Any], *, collective: _Collective
) -> tuple[list[Any], list[Any]]:
    results = meet_p.bind(*values, collective=collective)
    # A tangent that is zero here may not be so on other replicas, which wait for it.
    floats = [i for i, value in enumerate(values) if _is_float(value)]
    given = [ad.instantiate_zeros(tangents[index]) for index in floats]
    moved = meet_p.bind(*given, collective=collective.only(floats))
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
        "The derivative of a collective in an eager `strategy.run` is a meeting of all "
        "replicas. Received: one inside a JAX transformation (jit, vmap, ...), where "
        "replicas cannot meet. Decorate the function given to `run` with "
        "`@mirrax.function`."
    )


def _is_float(value: Any) -> bool:
    return bool(jnp.issubdtype(jax.typeof(value).dtype, jnp.inexact))


meet_p.def_impl(_meet)
meet_p.def_abstract_eval(_avals)
ad.primitive_jvps[meet_p] = _differentiate
ad.primitive_transposes[meet_p] = _transpose
batching.primitive_batchers[meet_p] = _refuse
mlir.register_lowering(meet_p, _refuse)
