"""All-reduce between CPU workers, in the order of the replicas.

XLA's all-reduce between processes (Gloo's ring) is slow for small values, and adds up
in an order that depends on how replicas are spread over workers. Here replicas send
their values to each other and add them from left to right, as XLA does inside one
process. So 1 worker with 4 replicas, 2 with 2 and 4 with 1 give the same bits; but for
bfloat16, of which XLA may keep more precision inside a program.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching, mlir
from typing_extensions import override

from mirrax._jax.jaxprs import Primitive
from mirrax.collectives import packing, spmd, worker_costs
from mirrax.collectives.all_reduce import psum
from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.devices.topology import AXIS
from mirrax.options import CollectiveCommunication, CommunicationOptions, CpuSum

# One operation for a sum, so that other code knows it as such.
sum_p = Primitive("sum_over_workers")


class WorkerAllReduce(CrossDeviceOps):
    """All-reduce of CPU devices of several workers."""

    @override
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        way = options.cpu_sum
        if options.implementation is CollectiveCommunication.RING:
            way = CpuSum.ALL_REDUCE
        if options.bytes_per_pack:
            groups = packing.groups_by_bytes(values, options.bytes_per_pack)
        else:
            groups = packing.groups_of_small(values, worker_costs.PACKED_BYTES)
        sum_each = functools.partial(_sum_each, num_replicas=num_replicas, way=way)
        return packing.in_packs(values, groups, sum_each)


def sum_over_replicas(value: jax.Array, num_replicas: int) -> jax.Array:
    """Returns the sum over the replicas, as quickly as their devices allow."""
    if spmd.is_between_cpus():
        return _sum_each([value], num_replicas)[0]
    return psum([value])[0]


def _sum_each(
    values: Sequence[jax.Array], num_replicas: int, way: CpuSum = CpuSum.AUTO
) -> list[jax.Array]:
    # XLA sends and adds up bfloat16 as float32 on CPUs, and so do we.
    wide = [v.astype(jnp.float32) if v.dtype == jnp.bfloat16 else v for v in values]
    sums = [_sum_one(value, num_replicas, way) for value in wide]
    return [total.astype(v.dtype) for total, v in zip(sums, values, strict=True)]


def _sum_one(value: jax.Array, num_replicas: int, way: CpuSum) -> jax.Array:
    if way is CpuSum.AUTO:
        way = worker_costs.quickest_sum(value, num_replicas)
    if way is CpuSum.ALL_REDUCE:
        return psum([value])[0]
    return sum_p.bind(
        value, axes=(AXIS,), num_replicas=num_replicas, in_full=way is CpuSum.IN_FULL
    )


def sum_in_full(value: jax.Array, num_replicas: int) -> jax.Array:
    """Every replica gets all values, and adds up all of them."""
    return _add_up(spmd.exchange(value, num_replicas))


def sum_in_pieces(value: jax.Array, num_replicas: int) -> jax.Array:
    """Every replica adds up one piece of all values, and sends the sum to the others.

    Each sends fewer bytes than in full, in two messages instead of one.
    """
    padded = jnp.pad(value.ravel(), (0, -value.size % num_replicas))
    own = sum_own_piece(padded, 0, num_replicas)
    whole: jax.Array = lax.all_gather(own, AXIS, tiled=True)
    return whole[: value.size].reshape(value.shape)


def sum_own_piece(value: jax.Array, axis: int, num_replicas: int) -> jax.Array:
    """Every replica adds up its piece of all values, which are cut along `axis`."""
    wide = value.astype(jnp.float32) if value.dtype == jnp.bfloat16 else value
    pieces = jnp.stack(jnp.split(wide, num_replicas, axis))
    return _add_up(lax.all_to_all(pieces, AXIS, 0, 0)).astype(value.dtype)


def _add_up(parts: jax.Array) -> jax.Array:
    return functools.reduce(operator.add, parts)


def _lowered(
    value: jax.Array, *, axes: tuple[str], num_replicas: int, in_full: bool
) -> jax.Array:
    return (sum_in_full if in_full else sum_in_pieces)(value, num_replicas)


sum_p.def_abstract_eval(lambda aval, **_: aval)
mlir.register_lowering(sum_p, mlir.lower_fun(_lowered, multiple_results=False))
ad.deflinear2(sum_p, lambda cotangent, _, **params: [sum_p.bind(cotangent, **params)])
batching.primitive_batchers[sum_p] = lambda values, dims, **params: (
    sum_p.bind(*values, **params),
    dims[0],
)
