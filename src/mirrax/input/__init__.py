"""Feeding datasets to replicas."""

from mirrax.input.distributed_dataset import DistributedDataset as DistributedDataset
from mirrax.input.distributed_dataset import DistributedIterator as DistributedIterator
from mirrax.input.input_context import InputContext as InputContext
from mirrax.input.input_context import InputOptions as InputOptions
from mirrax.input.input_context import InputReplicationMode as InputReplicationMode
