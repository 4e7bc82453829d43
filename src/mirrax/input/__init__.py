"""Feeding datasets to replicas."""

from mirrax.input.context import InputContext as InputContext
from mirrax.input.context import InputOptions as InputOptions
from mirrax.input.context import InputReplicationMode as InputReplicationMode
from mirrax.input.distributed import DistributedDataset as DistributedDataset
from mirrax.input.distributed import DistributedIterator as DistributedIterator
