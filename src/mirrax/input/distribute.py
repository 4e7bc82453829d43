"""Distributes datasets: chooses the feed of each worker and assembles the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from mirrax import user_frames
from mirrax.data.adapters import as_dataset
from mirrax.data.adapters.iterables import ForeignSource
from mirrax.data.dataset import Dataset
from mirrax.data.dataset_options import AutoShardPolicy
from mirrax.data.iterator import DatasetIterator
from mirrax.data.nodes.buffered import Prefetch
from mirrax.data.nodes.sources import Generated, Slices
from mirrax.data.plan.node import Node, find, has_expensive_node
from mirrax.data.plan.seeds import seeds_of, with_seeds
from mirrax.devices.peers import Peers, exchange_json
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch
from mirrax.input.auto_shard import auto_shard, resolve_policy
from mirrax.input.batch_digest import batch_log, digest_of
from mirrax.input.batch_rows import Share, batch_size_of, not_batched_error, share_of
from mirrax.input.device_placement import part_spec, place_parts
from mirrax.input.distributed_dataset import DistributedDataset
from mirrax.input.feeds import (
    Feed,
    PerReplicaFeed,
    RowFeed,
    SharedBatchFeed,
    SingleReplicaFeed,
)
from mirrax.input.input_context import InputContext, InputOptions, InputReplicationMode
from mirrax.input.prefetched_steps import Step, StepReader
from mirrax.input.synchronized_steps import (
    StepSynchronizer,
    Synchronize,
    empty_parts,
    log_batch,
)
from mirrax.trees import Tree

_BY_DATA = AutoShardPolicy.DATA
_OWN = (AutoShardPolicy.OFF, AutoShardPolicy.HINT)


def distribute(
    data: Any, topology: Topology, options: InputOptions | None = None
) -> DistributedDataset:
    """Returns a dataset of global batches, divided among the replicas.

    Args:
        data: A dataset, or what `mirrax.data.as_dataset` accepts.
    """
    share, peers = share_of(topology), topology.peers
    given = with_common_seeds(_as_batches(data), peers)
    dataset, asked_depth = _split_prefetch(given)
    if share.num_replicas > 1:
        _require_batches(dataset.plan)
    open_feed = feed_opener(dataset, share)
    policy = _policy(dataset)

    def describe() -> Tree:
        return _part_specs(dataset.element_spec, share, share.num_replicas)

    # Workers that read the same batches know the sizes of the others' parts.
    is_common = policy is _BY_DATA
    if is_common and not topology.is_local:
        size = dataset.cardinality()
        _require_same(peers, "dataset", f"{size} x {dataset.element_spec}")
        _compare_arrays(dataset.plan, peers)
    return _build(
        open_feed,
        describe,
        dataset,
        topology,
        options or InputOptions(),
        is_common,
        asked_depth,
    )


def distribute_from_function(
    make: Callable[[InputContext], Any],
    topology: Topology,
    options: InputOptions | None = None,
) -> DistributedDataset:
    """Returns a distributed dataset of per-replica batches.

    Args:
        make: Creates the dataset of a worker, or of a replica.
        options: One dataset per worker or per replica, placement and prefetching.
    """
    share = share_of(topology)
    options = options or InputOptions()
    _require_function(make)
    mode = options.experimental_replication_mode
    _require_consistent(options)
    contexts = _contexts(share, mode is InputReplicationMode.PER_REPLICA)
    datasets = [_as_batches(make(context)) for context in contexts]

    def open_feed() -> Feed:
        iterators = [iter(dataset) for dataset in datasets]
        if share.num_replicas == 1:
            return SharedBatchFeed(iterators[0], share)
        return PerReplicaFeed(iterators, share)

    def describe() -> Tree:
        return _part_specs(datasets[0].element_spec, share, num_parts=1)

    return _build(open_feed, describe, datasets[0], topology, options, False)


def feed_opener(dataset: Dataset, share: Share) -> Callable[[], Feed]:
    """Returns a function that opens a worker's feed."""
    plan = dataset.plan
    policy = _policy(dataset)
    if policy is _BY_DATA:
        has_digest = _needs_comparison(plan, share)
        return lambda: SharedBatchFeed(iter(dataset), share, has_digest)
    # Raises errors before anything is read.
    auto_shard(plan, policy, share.num_workers, share.worker_index)
    size = batch_size_of(plan)

    def open_feed() -> Feed:
        iteration = dataset.next_iteration()

        def open_pipeline(num_workers: int, index: int) -> DatasetIterator:
            own = auto_shard(plan, policy, num_workers, index)
            return dataset.iterate(own, iteration)

        if share.num_replicas == 1:
            return SingleReplicaFeed(open_pipeline, size)
        return RowFeed(open_pipeline, size, share, policy in _OWN)

    return open_feed


def _needs_comparison(plan: Node, share: Share) -> bool:
    """Returns whether workers may read different batches, for example unseeded ones."""
    found = [*find(plan, ForeignSource), *find(plan, Generated)]
    return share.num_workers > 1 and bool(found)


def with_common_seeds(dataset: Dataset, peers: Peers) -> Dataset:
    """Returns a dataset with the first worker's seeds, so that all shuffle alike.

    Not with OFF and HINT: there, all workers would read the same data in one order.
    """
    seeds = seeds_of(dataset.plan)
    if not seeds or _policy(dataset) in _OWN:
        return dataset
    common = exchange_json(peers, "seeds of a dataset", seeds)[0]
    plan = with_seeds(dataset.plan, common)
    return dataset if plan is dataset.plan else Dataset(plan, dataset.options())


def _build(
    open_feed: Callable[[], Feed],
    describe: Callable[[], Tree],
    dataset: Dataset,
    topology: Topology,
    options: InputOptions,
    is_common: bool,
    asked_depth: int = 0,
) -> DistributedDataset:
    is_on_device = options.experimental_fetch_to_device
    count = len(topology.local_devices)
    depth = 0
    if has_expensive_node(dataset.plan):
        own_depth = max(1, options.experimental_per_replica_buffer_size) * count
        depth = max(own_depth, asked_depth)

    def place(feed: Feed, parts: list[Tree]) -> Step:
        element = place_parts(parts, topology, is_on_device, feed.sizes)
        return Step(element, feed.digest)

    def make_empty() -> Tree:
        parts = empty_parts(dataset.element_spec, count)
        return place_parts(parts, topology, is_on_device)

    synchronize: Synchronize | None = None
    if not (topology.is_local or is_common):
        synchronize = StepSynchronizer(topology.peers, make_empty)
    elif is_common and _needs_comparison(dataset.plan, share_of(topology)):
        synchronize = functools.partial(log_batch, batch_log(topology))
    return DistributedDataset(
        lambda: StepReader(open_feed, place, depth),
        describe,
        depth,
        synchronize,
        lambda: dataset.plan.cardinality,
    )


def _compare_arrays(plan: Node, peers: Peers) -> None:
    """Warns if workers that read the same batches have other arrays in memory."""
    arrays = [node.columns for node in find(plan, Slices)]
    digests = exchange_json(peers, "arrays of a dataset", digest_of(arrays))
    if len(set(digests)) > 1:
        user_frames.warn(
            "All workers should distribute the same arrays: each takes its rows of "
            "each batch, so the others are never used. Received: arrays with the "
            f"checksums {digests}, in the order of the workers. Give each worker the "
            "same data; or let each read its own, with "
            "`strategy.distribute_datasets_from_function`."
        )


def _require_same(peers: Peers, topic: str, text: str) -> None:
    answers = exchange_json(peers, topic, text)
    if any(answer != answers[0] for answer in answers):
        shown = "; ".join(f"worker {i}: {text}" for i, text in enumerate(answers))
        raise ProgramMismatch(
            f"All workers must have the same {topic}. Received: {shown}. Give each "
            "worker the same data, or use `distribute_datasets_from_function`."
        )


def _as_batches(data: Any) -> Dataset:
    if isinstance(data, Dataset):
        return data
    dataset = as_dataset(data)
    plan = dataset.plan
    # Everything else can be looked up by row: arrays, tables of Hugging Face.
    if not isinstance(plan, ForeignSource) or plan.gives_rows:
        raise ValueError(
            "The elements that are distributed must be batches. Received: rows of a "
            f"{type(data).__name__}, {dataset.element_spec}. Batch them first: "
            "mirrax.data.as_dataset(data).batch(n), with the global batch size. If "
            "each row is a batch already, pass mirrax.data.as_dataset(data)."
        )
    return dataset


def _split_prefetch(dataset: Dataset) -> tuple[Dataset, int]:
    """Removes a final `prefetch`, and returns its depth: steps are prefetched here."""
    plan = dataset.plan
    if not isinstance(plan, Prefetch):
        return dataset, 0
    return Dataset(plan.source, dataset.options()), plan.depth


def _require_function(make: Any) -> None:
    if not callable(make):
        raise TypeError(
            "`dataset_fn` is a function that takes an `InputContext` and returns a "
            f"dataset. Received: an object of type {type(make).__name__}. Write "
            "`lambda context: dataset`, or pass a dataset of global batches to "
            "`experimental_distribute_dataset`."
        )


def _require_consistent(options: InputOptions) -> None:
    mode = options.experimental_replication_mode
    fetches = options.experimental_fetch_to_device
    is_possible = mode is InputReplicationMode.PER_REPLICA and not fetches
    if options.experimental_place_dataset_on_device and not is_possible:
        raise ValueError(
            "`experimental_place_dataset_on_device` needs a dataset for each replica, "
            "whose elements are not fetched to the device later. Received: "
            f"experimental_replication_mode={mode.name}, "
            f"experimental_fetch_to_device={fetches}. Set PER_REPLICA and False, or "
            "leave `experimental_place_dataset_on_device` out."
        )


def _policy(dataset: Dataset) -> AutoShardPolicy:
    policy = dataset.options().experimental_distribute.auto_shard_policy
    return resolve_policy(dataset.plan, AutoShardPolicy(policy))


def _contexts(share: Share, per_replica: bool) -> list[InputContext]:
    if not per_replica:
        numbers = [(share.num_workers, share.worker_index)]
    else:
        numbers = [(share.num_replicas, replica) for replica in share.replicas]
    return [InputContext(count, i, share.num_replicas) for count, i in numbers]


def _require_batches(plan: Node) -> None:
    if find(plan, ForeignSource):
        return
    spec = plan.spec
    if any(leaf.shape == () for leaf in jax.tree.leaves(spec)):
        raise not_batched_error(spec)


def _part_specs(spec: Tree, share: Share, num_parts: int) -> Tree:
    if share.num_replicas == 1:
        return spec
    count = share.replicas_per_worker
    return jax.tree.map(lambda leaf: part_spec(leaf, num_parts, count), spec)
