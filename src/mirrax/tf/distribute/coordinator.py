"""`tf.distribute.coordinator`: parameter servers, which Mirrax does not have."""

from mirrax.tf.namespaces.missing_names import unavailable

ClusterCoordinator = unavailable("tf.distribute.coordinator.ClusterCoordinator")
PerWorkerValue = unavailable("tf.distribute.coordinator.PerWorkerValue")
RemoteValue = unavailable("tf.distribute.coordinator.RemoteValue")


def experimental_get_current_worker_index() -> None:
    """Raises: there is no cluster coordinator."""
    unavailable("tf.distribute.coordinator.experimental_get_current_worker_index")()
