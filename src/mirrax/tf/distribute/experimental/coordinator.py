"""`tf.distribute.experimental.coordinator`."""

from mirrax.tf.distribute import coordinator
from mirrax.tf.distribute.coordinator import ClusterCoordinator as ClusterCoordinator
from mirrax.tf.distribute.coordinator import RemoteValue as RemoteValue

PerWorkerValues = coordinator.PerWorkerValue
