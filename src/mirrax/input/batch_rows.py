"""Rows of batches: read one by one, split among workers and replicas."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.adapters.iterables import ForeignSource
from mirrax.data.iterator import DatasetIterator
from mirrax.data.nodes.batching import Batching
from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import Node, find
from mirrax.data.plan.streams import State, Stream
from mirrax.devices.topology import Topology
from mirrax.errors import InvalidArgumentError
from mirrax.trees import Tree


@dataclasses.dataclass(frozen=True)
class Share:
    """The replicas of one worker among those of all workers."""

    num_workers: int = 1
    worker_index: int = 0
    replicas_per_worker: int = 1

    @property
    def num_replicas(self) -> int:
        return self.num_workers * self.replicas_per_worker

    @property
    def replicas(self) -> range:
        start = self.worker_index * self.replicas_per_worker
        return range(start, start + self.replicas_per_worker)


def share_of(topology: Topology) -> Share:
    """Returns the share of this process."""
    count = len(topology.local_devices)
    return Share(topology.num_workers, topology.worker_index, count)


def split_batch(batch_size: int, num_replicas: int) -> list[slice]:
    """Returns the rows of a global batch that each replica gets.

    All get the same number of rows, but the last replicas may get fewer or none.

    >>> split_batch(5, num_replicas=4)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None), slice(5, 5, None)]
    """
    size = -(-batch_size // num_replicas)
    cuts = [min(i * size, batch_size) for i in range(num_replicas + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(cuts)]


def even_sizes(batch_size: int, num_replicas: int) -> tuple[int, ...]:
    """Returns part sizes that differ by at most one.

    >>> even_sizes(9, num_replicas=4)
    (3, 2, 2, 2)
    """
    base, extra = divmod(batch_size, num_replicas)
    return tuple(base + (i < extra) for i in range(num_replicas))


def sizes_at(step: int, batch_size: int, share: Share) -> tuple[int, ...]:
    """Returns how many rows each replica of a worker gets at a step.

    The sizes rotate over the steps, so that all workers read equally many rows.

    >>> [sizes_at(step, 5, Share(2, 1)) for step in range(3)]
    [(2,), (3,), (2,)]
    """
    sizes = even_sizes(batch_size, share.num_replicas)
    offset = step * share.replicas_per_worker
    return tuple(sizes[(offset + i) % share.num_replicas] for i in share.replicas)


def batch_size_of(plan: Node) -> int | None:
    """Returns the batch size of a plan, where TensorFlow knows it.

    It knows static shapes, and operations that keep the size which `batch` gives.
    """
    if find(plan, ForeignSource):
        # Their spec would need the first element.
        return _size_in(plan)
    leaves = jax.tree.leaves(plan.spec)
    static = {leaf.shape[0] if leaf.shape else None for leaf in leaves}
    if static and None not in static:
        return static.pop() if len(static) == 1 else None
    return _size_in(plan)


def _size_in(plan: Node) -> int | None:
    if isinstance(plan, Batching):
        return plan.size
    if plan.keeps_batch_size:
        sizes = {_size_in(node) for node in plan.inputs}
        return sizes.pop() if len(sizes) == 1 else None
    return None


class BatchRowReader(BufferedStream):
    """Reads rows across batches; its state is the position of the next row."""

    def __init__(self, batches: DatasetIterator) -> None:
        super().__init__(_WholeBatches(batches))

    def take_rows(self, limit: int) -> Tree:
        """Returns 1 to `limit` rows of the current batch; an empty slice for 0."""
        return jax.tree.unflatten(self.structure, self.take_buffered(limit))

    @property
    def batch_size(self) -> int:
        return self._count


class _WholeBatches(Stream):
    """Gives all rows of a batch at once."""

    def __init__(self, batches: DatasetIterator) -> None:
        self._batches = batches

    @override
    def take(self, limit: int) -> Columns | None:
        for batch in self._batches:
            if num_rows(batch):
                columns, self.structure = jax.tree.flatten(batch)
                return columns
        return None

    @override
    def state(self) -> State:
        return self._batches.position()

    @override
    def restore(self, state: State) -> None:
        self._batches.seek(state)


def num_rows(batch: Tree) -> int:
    """Returns the number of rows of a batch; raises if it is not a batch."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(batch)]
    if () in shapes:
        raise not_batched_error(shapes)
    counts = {shape[0] for shape in shapes}
    if len(counts) > 1:
        raise InvalidArgumentError(
            "All arrays of a batch must have the same number of rows. "
            f"Received: {sorted(counts)}."
        )
    return counts.pop() if counts else 0


def not_batched_error(received: Any) -> IndexError:
    """Returns the error for elements that are not batches."""
    # An IndexError, as in TensorFlow.
    return IndexError(
        "A dataset is divided along the first dimension of its elements, so they must "
        f"be batches. Received: elements with scalars, {received}. Call `batch` with "
        "the global batch size first, for other libraries' data after "
        "`mirrax.data.as_dataset`."
    )


def slice_rows(batch: Tree, where: slice) -> Tree:
    """Returns a slice of a batch."""
    return jax.tree.map(lambda leaf: leaf[where], batch)


def join_rows(pieces: list[Tree]) -> Tree:
    """Concatenates slices of batches."""
    if len(pieces) == 1:
        return pieces[0]
    return jax.tree.map(lambda *column: np.concatenate(column), *pieces)
