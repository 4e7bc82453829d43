"""Batches for Keras models that belong to strategies.

A batch whose size is a multiple of the number of replicas is split between them. Any
other batch is replicated, which keeps all statistics of layers and metrics exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental.sparse import JAXSparse
from typing_extensions import override

from mirrax import trees
from mirrax.collectives import worker_exchange
from mirrax.collectives.gather import gather
from mirrax.data.dataset import Dataset
from mirrax.devices.topology import Topology
from mirrax.input.distributed_dataset import DistributedDataset
from mirrax.integrations.keras import internals
from mirrax.trees import Tree
from mirrax.values.layouts import Joined, join_parts
from mirrax.values.per_replica import PerReplica


def shard_batch(batch: Tree, topology: Topology) -> Tree:
    """Places a batch on the devices of the replicas."""
    return jax.tree.map(
        lambda leaf: _shard_leaf(leaf, topology),
        batch,
        is_leaf=lambda leaf: isinstance(leaf, JAXSparse) or trees.is_leaf(leaf),
    )


def prefetch_batches(batches: Iterable[Tree], topology: Topology) -> Iterator[Tree]:
    """Yields batches on the devices; the next one is transferred meanwhile."""
    if topology.devices[0].platform == "cpu":
        # Prefetching to host memory gains nothing.
        yield from (shard_batch(batch, topology) for batch in batches)
        return
    waiting: list[Tree] = []
    for batch in batches:
        waiting.append(shard_batch(batch, topology))
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting


def _shard_leaf(leaf: Any, topology: Topology) -> Any:
    if isinstance(leaf, PerReplica):
        return _joined(leaf, topology)
    if isinstance(leaf, JAXSparse):
        return jax.device_put(leaf, topology.replicated)
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        leaf = np.asarray(leaf)
    is_even = len(leaf.shape) > 0 and leaf.shape[0] % topology.num_replicas == 0
    sharding = topology.split if is_even and leaf.shape[0] else topology.replicated
    if isinstance(leaf, jax.Array):
        if topology.is_local:
            return jax.device_put(leaf, sharding)
        leaf = np.asarray(leaf)
    if leaf.dtype.kind in "OUS":
        return leaf
    # A copy, because JAX would share the memory of a batch that may be reused.
    return jax.make_array_from_callback(
        leaf.shape, sharding, lambda index: np.array(leaf[index])
    )


def _joined(value: PerReplica, topology: Topology) -> jax.Array:
    """Returns the parts of all replicas as one batch."""
    (layout,) = worker_exchange.with_shapes(topology, [value.layout])
    if isinstance(layout, Joined):
        return layout.array
    parts = tuple(layout.parts)
    kinds = getattr(layout, "shapes", None) or [
        worker_exchange.shape_dtype_of(p) for p in parts
    ]
    if all(kind == kinds[0] for kind in kinds) and kinds[0][0][:1] != (0,):
        return join_parts(parts, topology)
    return gather(topology, PerReplica(layout), 0)


def as_input(
    data: Any, strategy: Any, y: Any, sample_weight: Any, class_weight: Any = None
) -> Any:
    """Wraps a dataset of Mirrax for Keras; returns other data unchanged."""
    if not isinstance(data, Dataset | DistributedDataset):
        return data
    topology = None if strategy is None else strategy.topology
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None:
            raise ValueError(
                f"A dataset contains everything of a batch, so `{name}` cannot be "
                f"given. Received: x={data!r} and `{name}`. Make the elements (x, y) "
                "or (x, y, sample_weight)."
            )
    is_local = topology is None or topology.is_local
    if isinstance(data, Dataset) and not is_local:
        # Each worker reads its share.
        data = strategy.experimental_distribute_dataset(data)
    return DatasetAdapter(data, topology, class_weight)


class DatasetAdapter(internals.DataAdapter):  # type: ignore[misc]
    """Adapts a dataset of batches to Keras.

    Args:
        topology: The devices; None if the model belongs to no strategy.
    """

    def __init__(
        self,
        dataset: Dataset | DistributedDataset,
        topology: Topology | None,
        class_weight: Any = None,
    ) -> None:
        self._dataset = dataset
        self._topology = topology
        self._class_weight = class_weight

    @override
    def get_jax_iterator(self) -> Iterator[Tree]:
        for batch in self._dataset:
            yield batch if self._class_weight is None else self._weighted(batch)

    get_numpy_iterator = get_jax_iterator

    @property
    @override
    def num_batches(self) -> int | None:
        if isinstance(self._dataset, DistributedDataset):
            return None
        count = int(self._dataset.cardinality())
        return count if count >= 0 else None

    batch_size = None
    has_partial_batch = None
    partial_batch_size = None

    def _weighted(self, batch: Tree) -> Tree:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        if sample_weight is not None:
            raise ValueError(
                "`class_weight` and the weights of rows exclude each other. Received: "
                "`class_weight`, and a dataset of (x, y, sample_weight). Leave one out."
            )
        if isinstance(y, PerReplica) and self._topology is not None:
            y = gather(self._topology, y, 0)
        weights = internals.class_weight_to_sample_weights(
            np.asarray(y), self._class_weight
        )
        return x, y, weights
