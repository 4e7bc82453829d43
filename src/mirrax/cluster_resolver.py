"""Cluster resolvers: who takes part in a job, read from where the job runs."""

from mirrax.cluster.resolvers import (
    ClusterResolver,
    SimpleClusterResolver,
    TFConfigClusterResolver,
    UnionResolver,
)
from mirrax.cluster.spec import ClusterSpec

__all__ = [
    "ClusterResolver",
    "ClusterSpec",
    "SimpleClusterResolver",
    "TFConfigClusterResolver",
    "UnionResolver",
]
