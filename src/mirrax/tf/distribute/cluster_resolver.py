"""`tf.distribute.cluster_resolver`."""

from mirrax.cluster_resolver import ClusterResolver as ClusterResolver
from mirrax.cluster_resolver import GCEClusterResolver as GCEClusterResolver
from mirrax.cluster_resolver import (
    KubernetesClusterResolver as KubernetesClusterResolver,
)
from mirrax.cluster_resolver import (
    KubernetesExecutableLocation as KubernetesExecutableLocation,
)
from mirrax.cluster_resolver import SimpleClusterResolver as SimpleClusterResolver
from mirrax.cluster_resolver import SlurmClusterResolver as SlurmClusterResolver
from mirrax.cluster_resolver import TFConfigClusterResolver as TFConfigClusterResolver
from mirrax.cluster_resolver import TPUClusterResolver as TPUClusterResolver
from mirrax.cluster_resolver import UnionResolver as UnionResolver
