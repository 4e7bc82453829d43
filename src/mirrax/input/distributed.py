"""Datasets whose batches are divided among the replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from mirrax.context import stack
from mirrax.context.guards import MustDrive
from mirrax.data.dataset import Dataset
from mirrax.data.iterator import DatasetIterator
from mirrax.data.nodes.rebatching import Rebatch
from mirrax.data.plan import Node
from mirrax.devices.topology import Topology
from mirrax.errors import InvalidArgumentError, OutOfRangeError
from mirrax.input.prefetch import Feed, Prefetched, pays
from mirrax.input.split import rebatch_sizes, split_batch
from mirrax.trees import Tree
from mirrax.values.driving import Driving
from mirrax.values.layouts import Parts, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.values.specs import PerReplicaSpec, TensorSpec


class DistributedDataset(Driving):
    """A dataset of global batches, each divided among the replicas.

    Iterating gives a `PerReplica` for each array; with one replica, the array itself.
    While a step runs, the next ones are made ready if that takes work.

    Args:
        open_feed: Opens a feed of parts, from the start.
        spec: Shapes and dtypes of an element.
        topology: The devices.
        plan: What is read.
    """

    def __init__(
        self,
        open_feed: Callable[[], Feed],
        spec: Tree,
        topology: Topology,
        plan: Node,
    ) -> None:
        self._reads_ahead = pays(plan)
        self._open_feed = open_feed
        self._spec = spec
        self._topology = topology

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element; usable as an `input_signature`."""
        return self._spec

    def __iter__(self) -> DistributedIterator:
        if stack.overlay() is not None:
            # Only Python can work through a dataset; compiled steps run inside.
            raise MustDrive
        feed = self._open_feed()
        if self._reads_ahead:
            feed = Prefetched(feed, self._topology.num_replicas)
        return DistributedIterator(feed, self._spec, self._topology)

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """Returns `reduce_func(state, element)` of all elements, one after another."""
        state = initial_state
        for element in self:
            state = reduce_func(state, element)
        return state


class DistributedIterator(Driving, Iterator[Tree]):
    """The elements of a distributed dataset, one step after another."""

    def __init__(self, feed: Feed, spec: Tree, topology: Topology) -> None:
        self._feed = feed
        self._spec = spec
        self._topology = topology

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element; usable as an `input_signature`."""
        return self._spec

    def __iter__(self) -> DistributedIterator:
        return self

    def __next__(self) -> Tree:
        if stack.overlay() is not None:
            raise MustDrive
        parts = self._feed.step()
        if parts is None:
            raise StopIteration
        return _place(parts, self._topology)

    def get_next(self) -> Tree:
        """Returns the next element, or raises `OutOfRangeError` at the end."""
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("The dataset has no more elements.") from None

    def get_next_as_optional(self) -> OptionalElement:
        """Returns the next element, or that there is none."""
        try:
            return OptionalElement((next(self),))
        except StopIteration:
            return OptionalElement(())

    def save_state(self) -> Any:
        """Returns the position of the next element, as what JSON can hold."""
        return self._feed.save_state()

    def restore_state(self, state: Any) -> None:
        """Goes to a position that `save_state` gave."""
        self._feed.restore_state(state)


class OptionalElement(Driving):
    """An element, or none."""

    def __init__(self, held: tuple[Tree, ...]) -> None:
        self._held = held

    def has_value(self) -> bool:
        """Returns whether there is an element."""
        return bool(self._held)

    def get_value(self) -> Tree:
        """Returns the element; raises if there is none."""
        if not self._held:
            raise InvalidArgumentError("There is no element: the dataset has ended.")
        return self._held[0]


def distribute(dataset: Dataset, topology: Topology) -> DistributedDataset:
    """Returns a dataset of global batches, divided among the replicas of one worker."""
    plan = dataset.plan
    spec = plan.spec
    count = topology.num_replicas
    if topology.is_single:
        return DistributedDataset(lambda: _Whole(iter(dataset)), spec, topology, plan)
    for leaf in jax.tree.leaves(spec):
        if leaf.shape == ():
            # An IndexError, because that is what programs for TensorFlow meet.
            raise IndexError(
                "A dataset is divided along the first dimension of its elements, so "
                f"they must be batches. Received: elements with scalars, {spec}. Call "
                "`batch` with the global batch size first."
            )
    policy = dataset.options().experimental_distribute.auto_shard_policy
    sizes = rebatch_sizes(plan, policy, count)
    if sizes is None:
        return DistributedDataset(
            lambda: _Cut(iter(dataset), count),
            _part_specs(spec, count),
            topology,
            plan,
        )
    parts = Dataset(Rebatch(plan, sizes), dataset.options())
    return DistributedDataset(
        lambda: _Turns([iter(parts)] * count),
        _part_specs(spec, count),
        topology,
        plan,
    )


def distribute_from_function(
    make: Callable[[int], Dataset], topology: Topology, per_replica: bool
) -> DistributedDataset:
    """Returns datasets of the batches of replicas, as one.

    Args:
        make: Makes the dataset of this worker, or that of a replica.
        topology: The devices.
        per_replica: Whether each replica has a dataset of its own.
    """
    count = topology.num_replicas
    datasets = [make(index) for index in range(count if per_replica else 1)]
    spec = datasets[0].element_spec
    if topology.is_single:
        return DistributedDataset(
            lambda: _Whole(iter(datasets[0])), spec, topology, datasets[0].plan
        )

    def open_feed() -> Feed:
        iterators = [iter(dataset) for dataset in datasets]
        return _Turns(iterators if per_replica else iterators * count)

    whole = jax.tree.map(lambda leaf: PerReplicaSpec((leaf,) * count), spec)
    return DistributedDataset(open_feed, whole, topology, datasets[0].plan)


class _Whole:
    """The feed of a single replica."""

    def __init__(self, source: DatasetIterator) -> None:
        self._source = source

    def step(self) -> list[Tree] | None:
        for element in self._source:
            return [element]
        return None

    def save_state(self) -> Any:
        return self._source.save_state()

    def restore_state(self, state: Any) -> None:
        self._source.restore_state(state)


class _Cut(_Whole):
    """Each global batch is cut on its own."""

    def __init__(self, source: DatasetIterator, count: int) -> None:
        super().__init__(source)
        self._count = count

    def step(self) -> list[Tree] | None:
        for element in self._source:
            rows = {len(leaf) for leaf in jax.tree.leaves(element)}
            if len(rows) != 1:
                raise InvalidArgumentError(
                    "All arrays of a batch must have the same number of rows. "
                    f"Received: {sorted(rows)}."
                )
            pieces = split_batch(rows.pop(), self._count)
            return [
                jax.tree.map(lambda leaf, piece=piece: leaf[piece], element)
                for piece in pieces
            ]
        return None


class _Turns:
    """Each replica takes a batch in turn; who finds none gets an empty one."""

    def __init__(self, sources: list[DatasetIterator]) -> None:
        self._sources = sources

    def step(self) -> list[Tree] | None:
        parts = [next(source, None) for source in self._sources]
        found = [part for part in parts if part is not None]
        if not found:
            return None
        return [_empty_like(found[0]) if part is None else part for part in parts]

    def save_state(self) -> Any:
        distinct = {id(source): source for source in self._sources}
        return [source.save_state() for source in distinct.values()]

    def restore_state(self, state: Any) -> None:
        distinct = {id(source): source for source in self._sources}
        for source, inner in zip(distinct.values(), state, strict=True):
            source.restore_state(inner)


def _empty_like(element: Tree) -> Tree:
    if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(element)):
        raise InvalidArgumentError(
            "Each replica takes an element per step, and a step needs one for all. "
            "Received: fewer scalars than replicas in the last step. Batch the "
            "dataset, so that the rest can get empty batches, or use `take`."
        )
    return jax.tree.map(lambda leaf: leaf[:0], element)


def _place(parts: list[Tree], topology: Topology) -> Tree:
    placed = [
        jax.tree.map(lambda leaf, device=device: _to_device(leaf, device), part)
        for part, device in zip(parts, topology.local_devices, strict=True)
    ]
    if topology.is_single:
        return placed[0]
    return jax.tree.map(lambda *column: PerReplica(Parts(column, topology)), *placed)


def _to_device(leaf: Any, device: jax.Device) -> Any:
    """Returns an array on a device; strings stay where they are."""
    if isinstance(leaf, bytes | str) or np.asarray(leaf).dtype == object:
        return leaf
    # A copy, because JAX would share the memory of the batch.
    return to_device(np.array(leaf), device)


def _part_specs(spec: Tree, count: int) -> Tree:
    return jax.tree.map(lambda leaf: _part_spec(leaf, count), spec)


def _part_spec(spec: TensorSpec, count: int) -> PerReplicaSpec:
    if spec.shape is None:
        return PerReplicaSpec((spec,) * count)
    rows = spec.shape[0]
    size = rows // count if rows is not None and rows % count == 0 else None
    part = TensorSpec((size, *spec.shape[1:]), spec.dtype)
    return PerReplicaSpec((part,) * count)
