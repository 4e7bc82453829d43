"""Places the parts of a step on the devices of their replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mirrax.devices.topology import Topology
from mirrax.trees import Tree
from mirrax.values.layouts import Joined, Layout, Parts, to_device
from mirrax.values.per_replica import PerReplica, per_replica
from mirrax.values.tensor_spec import PerReplicaSpec, TensorSpec


def place_parts(
    parts: list[Tree],
    topology: Topology,
    is_on_device: bool,
    sizes: Sequence[int] | None = None,
) -> Tree:
    """Combines the parts of a step into one element.

    Args:
        parts: One for each replica of this worker.
        sizes: The row counts of the parts of all workers, if known.
    """
    if topology.is_single and is_on_device:
        device = topology.devices[0]
        return jax.tree.map(lambda leaf: _to_device(leaf, device), parts[0])
    if topology.is_single:
        return parts[0]

    def combine(*column: Any) -> PerReplica:
        if not is_on_device or _is_text(column[0]):
            layout: Layout = Parts(column, topology, _kinds(column, sizes))
        else:
            layout = _on_devices(column, topology, sizes)
        return per_replica(layout, topology)

    return jax.tree.map(combine, *parts)


def _on_devices(
    column: Sequence[Any], topology: Topology, sizes: Sequence[int] | None
) -> Layout:
    arrays = [np.asarray(part) for part in column]
    if _have_equal_shapes(arrays, topology, sizes):
        return Joined(_to_global_array(arrays, topology), False, topology)
    pairs = zip(arrays, topology.local_devices, strict=True)
    placed = tuple(_to_device(part, device) for part, device in pairs)
    return Parts(placed, topology, _kinds(placed, sizes))


def _have_equal_shapes(
    arrays: Sequence[Any], topology: Topology, sizes: Sequence[int] | None
) -> bool:
    shape = arrays[0].shape
    if not shape or 0 in shape or any(array.shape != shape for array in arrays):
        return False
    return topology.is_local if sizes is None else len(set(sizes)) == 1


def _to_global_array(arrays: Sequence[Any], topology: Topology) -> jax.Array:
    rows, *rest = arrays[0].shape
    first = topology.local_replicas[0] * rows
    # A copy, because JAX would share the memory of the batch.
    local = np.concatenate(arrays)

    def find(where: Any) -> np.ndarray[Any, Any]:
        start = where[0].indices(rows * topology.num_replicas)[0] - first
        return local[start : start + rows]

    shape = (rows * topology.num_replicas, *rest)
    return jax.make_array_from_callback(shape, topology.split, find)


def _kinds(column: Sequence[Any], sizes: Sequence[int] | None) -> Any:
    if sizes is None or not all(hasattr(part, "dtype") for part in column):
        return None
    (_, *rest), dtype = column[0].shape, str(column[0].dtype)
    return tuple(((size, *rest), dtype) for size in sizes)


def _to_device(leaf: Any, device: jax.Device) -> Any:
    # A copy, because JAX would share the memory of the batch.
    return leaf if _is_text(leaf) else to_device(np.array(leaf), device)


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, bytes | str) or np.asarray(leaf).dtype == object


def part_spec(spec: TensorSpec, num_parts: int, count: int) -> PerReplicaSpec:
    """Returns the spec of `count` of the `num_parts` parts of a batch."""
    if not spec.shape:
        return PerReplicaSpec((spec,) * count)
    rows = spec.shape[0]
    size = rows // num_parts if rows is not None and rows % num_parts == 0 else None
    part = TensorSpec((size, *spec.shape[1:]), spec.dtype)
    return PerReplicaSpec((part,) * count)
