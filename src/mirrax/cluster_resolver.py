"""Cluster resolvers, one for each environment that a job can run in."""

from mirrax.cluster.cluster_spec import ClusterDef, ClusterSpec, JobDef
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.cluster.resolvers.detection import find_cluster_resolver
from mirrax.cluster.resolvers.gce import GCEClusterResolver
from mirrax.cluster.resolvers.kubernetes import (
    KubernetesClusterResolver,
    KubernetesExecutableLocation,
)
from mirrax.cluster.resolvers.simple import SimpleClusterResolver
from mirrax.cluster.resolvers.slurm import SlurmClusterResolver
from mirrax.cluster.resolvers.tf_config import TFConfigClusterResolver
from mirrax.cluster.resolvers.tpu import TPUClusterResolver
from mirrax.cluster.resolvers.union import UnionResolver

__all__ = [
    "ClusterDef",
    "ClusterResolver",
    "ClusterSpec",
    "GCEClusterResolver",
    "JobDef",
    "KubernetesClusterResolver",
    "KubernetesExecutableLocation",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "TPUClusterResolver",
    "UnionResolver",
    "find_cluster_resolver",
]
