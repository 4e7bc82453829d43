"""Cluster resolvers: one for each kind of place that says who takes part."""

from mirrax.cluster.resolvers.base import ClusterResolver as ClusterResolver
from mirrax.cluster.resolvers.gce import GCEClusterResolver as GCEClusterResolver
from mirrax.cluster.resolvers.kubernetes import (
    KubernetesClusterResolver as KubernetesClusterResolver,
)
from mirrax.cluster.resolvers.kubernetes import (
    KubernetesExecutableLocation as KubernetesExecutableLocation,
)
from mirrax.cluster.resolvers.simple import (
    SimpleClusterResolver as SimpleClusterResolver,
)
from mirrax.cluster.resolvers.slurm import SlurmClusterResolver as SlurmClusterResolver
from mirrax.cluster.resolvers.tf_config import (
    TFConfigClusterResolver as TFConfigClusterResolver,
)
from mirrax.cluster.resolvers.tpu import TPUClusterResolver as TPUClusterResolver
from mirrax.cluster.resolvers.union import UnionResolver as UnionResolver
