"""Handing the parts of a step to the devices of their replicas."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mirrax.devices.topology import Topology
from mirrax.input.feeds import Feed
from mirrax.input.positions import Position
from mirrax.trees import Tree
from mirrax.values.layouts import Joined, Layout, Parts, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.values.specs import PerReplicaSpec, TensorSpec


class Placed:
    """A feed whose steps are elements, placed on the devices or kept on the host."""

    def __init__(self, feed: Feed, topology: Topology, is_on_device: bool) -> None:
        self._feed = feed
        self._topology = topology
        self._is_on_device = is_on_device

    def step(self) -> tuple[Tree] | None:
        """Returns the next element, as a tuple of one; None at the end."""
        parts = self._feed.step()
        if parts is None:
            return None
        return (place(parts, self._topology, self._is_on_device),)

    def position(self) -> Position:
        return self._feed.position()

    def go_to(self, position: Position) -> None:
        self._feed.go_to(position)


def place(parts: list[Tree], topology: Topology, is_on_device: bool) -> Tree:
    """Returns the parts of a step as one element."""
    if topology.is_single and is_on_device:
        device = topology.devices[0]
        return jax.tree.map(lambda leaf: _to_device(leaf, device), parts[0])
    if topology.is_single:
        return parts[0]
    return jax.tree.map(
        lambda *column: PerReplica(_layout(column, topology, is_on_device)), *parts
    )


def _layout(column: tuple[Any, ...], topology: Topology, is_on_device: bool) -> Layout:
    if not is_on_device or _is_text(column[0]):
        return Parts(column, topology)
    arrays = [np.asarray(part) for part in column]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1 or 0 in arrays[0].shape or not arrays[0].ndim:
        pairs = zip(arrays, topology.local_devices, strict=True)
        placed = tuple(_to_device(part, device) for part, device in pairs)
        return Parts(placed, topology)
    return Joined(_join(arrays, topology), False, topology)


def _join(arrays: list[np.ndarray[Any, Any]], topology: Topology) -> jax.Array:
    """Returns parts of one shape as an array over all devices."""
    rows, *rest = arrays[0].shape
    first = topology.local_replicas[0] * rows
    # A copy, because JAX would share the memory of the batch.
    local = np.concatenate(arrays)

    def find(where: Any) -> np.ndarray[Any, Any]:
        start = where[0].indices(rows * topology.num_replicas)[0] - first
        return local[start : start + rows]

    shape = (rows * topology.num_replicas, *rest)
    return jax.make_array_from_callback(shape, topology.split, find)


def _to_device(leaf: Any, device: jax.Device) -> Any:
    """Returns an array on a device; strings stay where they are."""
    # A copy, because JAX would share the memory of the batch.
    return leaf if _is_text(leaf) else to_device(np.array(leaf), device)


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, bytes | str) or np.asarray(leaf).dtype == object


def empty_parts(spec: Tree, count: int) -> list[Tree]:
    """Returns batches without rows, for the replicas of a worker without data."""
    return [jax.tree.map(_no_rows, spec)] * count


def _no_rows(spec: TensorSpec) -> Any:
    if not spec.shape:
        raise ValueError(
            "A worker without data gets empty batches, so elements must be batches of "
            f"known rank. Received: {spec}. Call `batch`, or give an output signature."
        )
    return np.zeros((0, *(size or 0 for size in spec.shape[1:])), spec.dtype)


def part_spec(spec: TensorSpec, share_of: int, count: int) -> PerReplicaSpec:
    """Returns the spec of `count` parts of a batch, for `share_of` replicas in all."""
    if spec.shape is None:
        return PerReplicaSpec((spec,) * count)
    rows = spec.shape[0]
    size = rows // share_of if rows is not None and rows % share_of == 0 else None
    part = TensorSpec((size, *spec.shape[1:]), spec.dtype)
    return PerReplicaSpec((part,) * count)
