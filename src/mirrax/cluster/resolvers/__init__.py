"""Cluster resolvers: one for each kind of place that says who takes part."""

from mirrax.cluster.resolvers.base import ClusterResolver as ClusterResolver
from mirrax.cluster.resolvers.simple import (
    SimpleClusterResolver as SimpleClusterResolver,
)
from mirrax.cluster.resolvers.tf_config import (
    TFConfigClusterResolver as TFConfigClusterResolver,
)
from mirrax.cluster.resolvers.union import UnionResolver as UnionResolver
