"""Arguments of calls that all workers make together: exchanged and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax.collectives import worker_exchange
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.devices.topology import Topology
from mirrax.values.array_like import as_arrays, is_array_like, is_prng_key
from mirrax.values.layouts import Parts, replicate
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import is_mirrored_array


def agreed_parts(leaves: Sequence[Any], topology: Topology) -> list[Any]:
    """Returns values whose parts on all workers are known by shape and dtype."""
    return _agreed(leaves, topology, plain=[])[0]


def agreed_arguments(
    leaves: Sequence[Any], topology: Topology, is_donated: Sequence[bool]
) -> list[Any]:
    """Returns the arguments of `run`, compared between workers.

    A plain value that differs between workers becomes a `PerReplica`. Batches of a
    distributed dataset and results of earlier programs need no comparison.

    Args:
        is_donated: Which arguments are donated, so that they must be equal.
    """
    plain = [
        i
        for i, leaf in enumerate(leaves)
        if is_array_like(leaf)
        and not isinstance(leaf, bool)
        and not is_mirrored_array(leaf, topology)
        and ShardLayout.of_array(leaf, topology) is None
    ]
    result, own = _agreed(leaves, topology, plain)
    if any(is_donated[i] for i in own):
        raise ValueError(
            "An argument in `donate_argnums` is state that all workers share, so they "
            "must start with the same. Received: arrays that differ between workers. "
            "Make them with the same seed, or load them from the same file."
        )
    return result


def _agreed(
    leaves: Sequence[Any], topology: Topology, plain: Sequence[int]
) -> tuple[list[Any], list[int]]:
    """Returns the values as they are known, and which plain ones differ."""
    parts = [i for i, leaf in enumerate(leaves) if _has_unknown_kinds(leaf)]
    if not parts and not plain:
        return list(leaves), []
    count = len(topology.local_devices)
    held: dict[int, tuple[Any, ...]] = {
        i: tuple(as_arrays(leaves[i].values)) for i in parts
    }
    held |= {i: (_plain(leaves[i]),) * count for i in plain}
    kinds = [[worker_exchange.shape_dtype_of(part) for part in held[i]] for i in held]
    digests = [worker_exchange.digest(held[i][0]) for i in plain]
    answers = worker_exchange.exchange(
        topology, "arguments of a function", [kinds, digests]
    )
    all_kinds, all_digests = zip(*answers, strict=True)
    columns = worker_exchange.merge_shapes(all_kinds)
    rows = zip(plain, zip(*all_digests, strict=True), strict=True)
    unequal = [i for i, digests_of_all in rows if len(set(digests_of_all)) > 1]
    result = list(leaves)
    for i, column in zip(held, columns, strict=True):
        if i in unequal:
            arrays = tuple(as_arrays(held[i]))
            result[i] = PerReplica(Parts(arrays, topology, column))
        elif i in parts:
            # Kept, because the same value is often given to several calls.
            leaves[i].layout = Parts(held[i], topology, column)
    return result, unequal


def _plain(value: Any) -> Any:
    """Returns a NumPy array; random keys stay as they are."""
    is_array = isinstance(value, jax.Array)
    return value if is_array and is_prng_key(value) else np.asarray(value)


def _has_unknown_kinds(leaf: Any) -> bool:
    return (
        isinstance(leaf, PerReplica)
        and isinstance(leaf.layout, Parts)
        and leaf.layout.shapes is None
        and all(is_array_like(part) for part in leaf.layout.parts)
    )


def with_local_inputs(
    run: Callable[..., Any], topology: Topology, compares_arguments: bool
) -> Callable[..., Any]:
    """Returns a program that replicates this worker's local inputs on its devices.

    Variables must be the same on all workers.

    Args:
        compares_arguments: Whether arguments must be the same, too.
    """

    def run_everywhere(
        changed: list[Any], read_only: list[Any], donated: list[Any], kept: list[Any]
    ) -> Any:
        arguments = [*donated, *kept] if compares_arguments else []
        own = [x for x in (*read_only, *arguments) if not _is_of_all_workers(x)]
        if any(worker_exchange.differing(topology, "values of arguments", own)):
            raise ValueError(
                "What a function takes from outside must be the same on all workers. "
                "Received: an argument or a variable created outside the scope that "
                "differs between workers. Give it to `strategy.run` directly, or use "
                "`experimental_distribute_values_from_function`."
            )
        inputs = [
            [x if _is_of_all_workers(x) else replicate(x, topology) for x in arrays]
            for arrays in (read_only, donated, kept)
        ]
        return run(changed, *inputs)

    return run_everywhere


def _is_of_all_workers(array: Any) -> bool:
    return isinstance(array, jax.Array) and not array.is_fully_addressable
