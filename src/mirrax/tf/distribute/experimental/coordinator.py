"""`tf.distribute.experimental.coordinator`."""

from mirrax.tf.distribute import coordinator
from mirrax.tf.distribute.coordinator import ClusterCoordinator as ClusterCoordinator
from mirrax.tf.distribute.coordinator import RemoteValue as RemoteValue
from mirrax.tf.missing_names import names_of

PerWorkerValues = coordinator.PerWorkerValue

__getattr__ = names_of("tf.distribute.experimental.coordinator")
