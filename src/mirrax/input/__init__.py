"""Distributed datasets: batches divided among workers and replicas.

One batch goes through: dataset iterator (`data/`), feed (`feeds`, `per_worker_feeds`:
splits it), `device_placement`, `data.prefetcher`, `synchronized_feed` (keeps workers in
step), `DistributedIterator`.
"""

from mirrax.input.distributed_dataset import DistributedDataset as DistributedDataset
from mirrax.input.distributed_dataset import DistributedIterator as DistributedIterator
from mirrax.input.input_context import InputContext as InputContext
from mirrax.input.input_context import InputOptions as InputOptions
from mirrax.input.input_context import InputReplicationMode as InputReplicationMode
