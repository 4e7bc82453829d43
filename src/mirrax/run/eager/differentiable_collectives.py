"""Derivatives of the collectives of eager replicas.

A reduction is linear: its forward-mode derivative is the reduction of the tangents, and
reverse mode is a reduction of the cotangents. The reductions passed in are
differentiable again, for second derivatives. A gather is a sum of padded arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from mirrax._jax.jaxprs import Primitive
from mirrax._jax.traces import evaluated

Reduce = Callable[[list[jax.Array]], list[jax.Array]]
Gather = Callable[[list[jax.Array], int], list[jax.Array]]


def differentiable_reduce(reduce: Reduce, values: list[jax.Array]) -> list[jax.Array]:
    """Returns `reduce(values)`; its gradient is `reduce` of the gradients."""
    return list(reduce_p.bind(*values, reduce=reduce))


def differentiable_gather(
    gather: Gather, add_up: Reduce, values: list[jax.Array], axis: int, replica_id: int
) -> list[jax.Array]:
    """Returns `gather(values, axis)`.

    Its gradient is this replica's slice of the gradients that all replicas have.
    """
    with evaluated():
        sizes = gather([jnp.array([value.shape[axis]]) for value in values], 0)
    padded = []
    for value, size in zip(values, sizes, strict=True):
        widths = [(0, 0)] * value.ndim
        before, after = size[:replica_id].sum(), size[replica_id + 1 :].sum()
        widths[axis] = (int(before), int(after))
        padded.append(jnp.pad(value, widths))
    totals = add_up(padded)
    # Booleans are added up as integers.
    return [total.astype(v.dtype) for total, v in zip(totals, values, strict=True)]


reduce_p = Primitive("eager_reduce")
"""A reduction over eager replicas, in a derivative."""
reduce_p.multiple_results = True


def _evaluate(*values: Any, reduce: Reduce) -> list[Any]:
    with evaluated():
        return reduce([jnp.asarray(value) for value in values])


def _differentiate(
    values: Sequence[Any], tangents: Sequence[Any], *, reduce: Reduce
) -> tuple[list[Any], list[Any]]:
    results = reduce_p.bind(*values, reduce=reduce)
    # A tangent that is zero here may not be so on other replicas, which wait for it.
    floats = [i for i, value in enumerate(values) if _is_float(value)]
    given = [ad.instantiate_zeros(tangents[index]) for index in floats]
    moved = reduce_p.bind(*given, reduce=reduce)
    found = dict(zip(floats, moved, strict=True))
    return results, [
        found.get(index, ad.Zero(jax.typeof(result).to_tangent_aval()))
        for index, result in enumerate(results)
    ]


def _transpose(cotangents: Sequence[Any], *values: Any, reduce: Reduce) -> list[Any]:
    moved = reduce([ad.instantiate_zeros(cotangent) for cotangent in cotangents])
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


reduce_p.def_impl(_evaluate)
# Only called for tangents, which are floats and keep their dtype.
reduce_p.def_abstract_eval(lambda *avals, reduce: list(avals))
ad.primitive_jvps[reduce_p] = _differentiate
ad.primitive_transposes[reduce_p] = _transpose
batching.primitive_batchers[reduce_p] = _refuse
mlir.register_lowering(reduce_p, _refuse)
