"""Feeding datasets to replicas."""

from mirrax.input.distributed import DistributedDataset as DistributedDataset
