"""Distributed datasets: batches divided among workers and replicas.

One batch goes through: the dataset's iterator; one of the `feeds`, which splits it;
`device_placement`; `steps`, prepared by a thread and in step on all workers;
`DistributedIterator`. `distribute` assembles these.
"""

from mirrax.input.distributed_dataset import DistributedDataset as DistributedDataset
from mirrax.input.distributed_dataset import DistributedIterator as DistributedIterator
from mirrax.input.input_context import InputContext as InputContext
from mirrax.input.input_context import InputOptions as InputOptions
from mirrax.input.input_context import InputReplicationMode as InputReplicationMode
