"""`tf.distribute.cluster_resolver`."""

from mirrax.cluster_resolver import ClusterResolver as ClusterResolver
from mirrax.cluster_resolver import SimpleClusterResolver as SimpleClusterResolver
from mirrax.cluster_resolver import TFConfigClusterResolver as TFConfigClusterResolver
from mirrax.cluster_resolver import UnionResolver as UnionResolver
from mirrax.tf.absent import names_of, unavailable

_MODULE = "tf.distribute.cluster_resolver"

GCEClusterResolver = unavailable(f"{_MODULE}.GCEClusterResolver")
KubernetesClusterResolver = unavailable(f"{_MODULE}.KubernetesClusterResolver")
KubernetesExecutableLocation = unavailable(f"{_MODULE}.KubernetesExecutableLocation")
SlurmClusterResolver = unavailable(f"{_MODULE}.SlurmClusterResolver")
TPUClusterResolver = unavailable(f"{_MODULE}.TPUClusterResolver")

__getattr__ = names_of(_MODULE)
