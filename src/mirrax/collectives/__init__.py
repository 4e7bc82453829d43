"""Combines the values of several replicas: reduce, gather, all-reduce."""

from mirrax.collectives.all_reduce import (
    HierarchicalCopyAllReduce as HierarchicalCopyAllReduce,
)
from mirrax.collectives.all_reduce import NcclAllReduce as NcclAllReduce
from mirrax.collectives.all_reduce import ReductionToOneDevice as ReductionToOneDevice
from mirrax.collectives.all_reduce import XlaAllReduce as XlaAllReduce
from mirrax.collectives.cross_device_ops import CrossDeviceOps as CrossDeviceOps
