"""`tf.distribute.experimental.coordinator`."""

from mirrax.tf.absent import names_of
from mirrax.tf.distribute.coordinator import ClusterCoordinator as ClusterCoordinator
from mirrax.tf.distribute.coordinator import PerWorkerValue as PerWorkerValues
from mirrax.tf.distribute.coordinator import RemoteValue as RemoteValue

__all__ = ["ClusterCoordinator", "PerWorkerValues", "RemoteValue"]

__getattr__ = names_of("tf.distribute.experimental.coordinator")
