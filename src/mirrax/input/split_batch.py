"""How batches are split among workers and replicas."""

from __future__ import annotations

import dataclasses
import itertools

from mirrax.data.nodes.batching import Batching, Rebatch
from mirrax.data.nodes.buffered import Prefetch
from mirrax.data.nodes.caching import Cache
from mirrax.data.nodes.combining import Concatenate
from mirrax.data.nodes.filtering import Filter
from mirrax.data.nodes.mapping import Map
from mirrax.data.nodes.ordering import Limit, Repeat, Shard, Shuffle
from mirrax.data.plan.node import Node
from mirrax.devices.topology import Topology

_SIZE_PRESERVING = (Cache, Filter, Limit, Map, Prefetch, Repeat, Shard, Shuffle)


@dataclasses.dataclass(frozen=True)
class Share:
    """The replicas of one worker among those of all workers."""

    num_workers: int = 1
    worker_index: int = 0
    replicas_per_worker: int = 1

    @property
    def num_replicas(self) -> int:
        """The number of replicas of all workers."""
        return self.num_workers * self.replicas_per_worker

    @property
    def replicas(self) -> range:
        """The indices of this worker's replicas."""
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
    """Returns the batch size of a plan, if known."""
    if isinstance(plan, Batching):
        return plan.size
    if isinstance(plan, Rebatch):
        return plan.sizes[0] if len(set(plan.sizes)) == 1 else None
    if isinstance(plan, _SIZE_PRESERVING):
        return batch_size_of(plan.source)
    if isinstance(plan, Concatenate):
        sizes = {batch_size_of(node) for node in plan.sources}
        return sizes.pop() if len(sizes) == 1 else None
    return None
