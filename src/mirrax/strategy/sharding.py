"""Which state a strategy stores in parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.collectives import worker_exchange
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.devices.topology import Topology
from mirrax.values.array_like import is_array, is_prng_key
from mirrax.values.layouts import replicate
from mirrax.values.regroup import is_mirrored_array

DEFAULT_BYTES = 64 * 1024
"""Smaller arrays cost more time to gather than they save memory."""


def parse_shard_state(shard_state: Any) -> tuple[int | None, int | None]:
    """Returns the smallest size in bytes of what is sharded: variables, or updates."""
    if shard_state == "updates":
        return None, DEFAULT_BYTES
    if isinstance(shard_state, bool):
        return (DEFAULT_BYTES if shard_state else None), None
    if not isinstance(shard_state, int) or shard_state < 0:
        raise ValueError(
            "`shard_state` is True, False, the smallest size in bytes of a sharded "
            "variable, or 'updates' to shard only the computation of new values. "
            f"Received: shard_state={shard_state!r}."
        )
    return shard_state, None


def choose_layout(
    array: jax.Array, topology: Topology, min_bytes: int | None, can_pad: bool = False
) -> ShardLayout | None:
    """Returns how the replicas divide an array; None if each stores a copy."""
    if min_bytes is None or array.nbytes < min_bytes or is_prng_key(array):
        return None
    layout = ShardLayout.of(array.shape, topology.num_replicas)
    # Only variables of Mirrax can be padded; other arrays stay whole.
    return layout if layout is None or can_pad or not layout.num_padding else None


def shard_leaf(leaf: Any, topology: Topology, min_bytes: int | None) -> Any:
    """Returns an array of the user's state with a part of it on each replica."""
    if not is_array(leaf):
        return leaf
    if ShardLayout.of_array(leaf, topology):
        return leaf
    # A copy, because the result may be donated.
    value = jnp.array(leaf, copy=True)
    if not is_mirrored_array(leaf, topology):
        # All workers start with the first worker's value.
        value = worker_exchange.from_first(topology, "shard", value)
    wanted = DEFAULT_BYTES if min_bytes is None else min_bytes
    layout = choose_layout(value, topology, wanted)
    return (
        replicate(value, topology) if layout is None else layout.store(value, topology)
    )
