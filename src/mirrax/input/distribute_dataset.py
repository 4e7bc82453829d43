"""Dividing datasets among workers and replicas: which feed each worker gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mirrax.data.adapters import as_dataset
from mirrax.data.adapters.foreign import Foreign
from mirrax.data.dataset import Dataset
from mirrax.data.dataset_options import AutoShardPolicy
from mirrax.data.iterator import DatasetIterator
from mirrax.data.node import Node, find, takes_work
from mirrax.data.nodes.prefetching import Prefetch
from mirrax.data.seeds import seeds_of, with_seeds
from mirrax.devices.peers import Peers, exchange_json
from mirrax.devices.topology import Topology
from mirrax.input.auto_shard import auto_shard, chosen_policy
from mirrax.input.batch_rows import not_batches
from mirrax.input.device_prefetch import Placed, empty_parts, part_spec, place
from mirrax.input.distributed_dataset import DistributedDataset
from mirrax.input.feeds import Batches, Feed, Turns
from mirrax.input.input_context import InputContext, InputOptions, InputReplicationMode
from mirrax.input.per_worker_feeds import Flowing, Pieces, Single
from mirrax.input.split_batch import batch_size_of
from mirrax.input.synchronized_feed import InStep
from mirrax.input.worker_share import Share, require_same, share_of
from mirrax.trees import Tree
from mirrax.values.tensor_spec import PerReplicaSpec

_BY_DATA = AutoShardPolicy.DATA
_OWN = (AutoShardPolicy.OFF, AutoShardPolicy.HINT)


def distribute(
    data: Any,
    topology: Topology,
    options: InputOptions | None = None,
) -> DistributedDataset:
    """Returns a dataset of global batches, divided among the replicas.

    Args:
        data: A dataset, or what `mirrax.data.as_dataset` takes.
        topology: The devices of all workers.
        options: Where values go, and how many are made ready.
    """
    share, peers = share_of(topology), topology.peers
    given = with_common_seeds(as_dataset(data), peers)
    dataset = _without_prefetch(given)
    if share.num_replicas > 1:
        _require_batches(dataset.plan)
    open_feed = feed_opener(dataset, share)
    policy = _policy(dataset)

    def describe() -> Tree:
        return _part_specs(dataset.element_spec, share)

    # Workers that go through the same batches know what the others get.
    is_common = policy is _BY_DATA
    if is_common and not topology.is_local:
        size = dataset.cardinality()
        require_same(peers, "dataset", f"{size} x {dataset.element_spec}")
    return _build(
        open_feed,
        describe,
        dataset,
        topology,
        options or InputOptions(),
        is_common,
        _asked_depth(given.plan),
    )


def distribute_from_function(
    make: Callable[[InputContext], Any],
    topology: Topology,
    options: InputOptions | None = None,
) -> DistributedDataset:
    """Returns datasets of the batches of replicas, as one.

    Args:
        make: Makes the dataset of a worker, or that of a replica.
        topology: The devices of all workers.
        options: Whether there is a dataset per worker or per replica, and more.
    """
    share = share_of(topology)
    options = options or InputOptions()
    mode = options.experimental_replication_mode
    contexts = _contexts(share, mode is InputReplicationMode.PER_REPLICA)
    datasets = [as_dataset(make(context)) for context in contexts]

    def open_feed() -> Feed:
        iterators = [iter(dataset) for dataset in datasets]
        if share.num_replicas == 1:
            return Batches(iterators[0], share)
        return Turns(iterators * (share.replicas_per_worker // len(iterators)), share)

    def describe() -> Tree:
        spec = datasets[0].element_spec
        if share.num_replicas == 1:
            return spec
        count = share.replicas_per_worker
        return jax.tree.map(lambda leaf: PerReplicaSpec((leaf,) * count), spec)

    return _build(open_feed, describe, datasets[0], topology, options, False)


def feed_opener(dataset: Dataset, share: Share) -> Callable[[], Feed]:
    """Returns what opens the feed of a worker, from the start."""
    plan = dataset.plan
    policy = _policy(dataset)
    size = batch_size_of(plan)
    if policy is _BY_DATA or (size is None and share.num_replicas == 1):
        return lambda: Batches(iter(dataset), share)
    # Raises what there is to raise, before anything is read.
    auto_shard(plan, policy, share.num_workers, share.worker_index)

    def open_feed() -> Feed:
        iteration = dataset.next_iteration()

        def open_pipeline(num_workers: int, index: int) -> DatasetIterator:
            own = auto_shard(plan, policy, num_workers, index)
            return dataset.iterate(own, iteration)

        is_own = policy in _OWN
        if size is None:
            return Pieces(open_pipeline, share, is_own)
        if share.num_replicas == 1:
            return Single(open_pipeline, size)
        return Flowing(open_pipeline, size, share, is_own)

    return open_feed


def with_common_seeds(dataset: Dataset, peers: Peers) -> Dataset:
    """Returns a dataset that every worker shuffles in the same way.

    But not where each reads everything: there, the same order would be the same work.
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
    depth = max(1, options.experimental_per_replica_buffer_size) * count

    def make_empty() -> Tree:
        parts = empty_parts(dataset.element_spec, count)
        return place(parts, topology, is_on_device)

    is_known = topology.is_local or is_common
    return DistributedDataset(
        lambda: Placed(open_feed(), topology, is_on_device),
        describe,
        max(depth, asked_depth) if takes_work(dataset.plan) else 0,
        InStep(None if is_known else topology.peers, make_empty),
    )


def _without_prefetch(dataset: Dataset) -> Dataset:
    """Returns a dataset without its last step, if that is what we do ourselves."""
    plan = dataset.plan
    if not isinstance(plan, Prefetch):
        return dataset
    return Dataset(plan.source, dataset.options())


def _asked_depth(plan: Node) -> int:
    return plan.depth if isinstance(plan, Prefetch) else 0


def _policy(dataset: Dataset) -> AutoShardPolicy:
    policy = dataset.options().experimental_distribute.auto_shard_policy
    return chosen_policy(dataset.plan, AutoShardPolicy(policy))


def _contexts(share: Share, per_replica: bool) -> list[InputContext]:
    if not per_replica:
        numbers = [(share.num_workers, share.worker_index)]
    else:
        numbers = [(share.num_replicas, replica) for replica in share.replicas]
    return [InputContext(count, i, share.num_replicas) for count, i in numbers]


def _require_batches(plan: Node) -> None:
    """Raises if elements are no batches, where that is known without reading any."""
    if find(plan, Foreign):
        return
    spec = plan.spec
    if any(leaf.shape == () for leaf in jax.tree.leaves(spec)):
        raise not_batches(spec)


def _part_specs(spec: Tree, share: Share) -> Tree:
    if share.num_replicas == 1:
        return spec
    count = share.replicas_per_worker
    return jax.tree.map(lambda leaf: part_spec(leaf, share.num_replicas, count), spec)
