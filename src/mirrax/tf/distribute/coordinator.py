"""`tf.distribute.coordinator`: names of training with parameter servers."""

from mirrax.tf.absent import names_of, unavailable

ClusterCoordinator = unavailable("tf.distribute.coordinator.ClusterCoordinator")
PerWorkerValue = unavailable("tf.distribute.coordinator.PerWorkerValue")
RemoteValue = unavailable("tf.distribute.coordinator.RemoteValue")


def experimental_get_current_worker_index() -> None:
    """Raises: only a cluster coordinator has workers that it gives functions to."""
    unavailable("tf.distribute.coordinator.experimental_get_current_worker_index")()


__getattr__ = names_of("tf.distribute.coordinator")
