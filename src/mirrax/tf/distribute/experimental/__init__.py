"""`tf.distribute.experimental`."""

from __future__ import annotations

from mirrax import CollectiveCommunication as CollectiveCommunication
from mirrax import CommunicationOptions as CommunicationOptions
from mirrax import ValueContext as ValueContext
from mirrax.tf.distribute import strategies
from mirrax.tf.distribute.experimental import coordinator as coordinator
from mirrax.tf.distribute.experimental import partitioners as partitioners
from mirrax.tf.distribute.experimental import rpc as rpc
from mirrax.tf.distribute.experimental.preemption import (
    PreemptionCheckpointHandler as PreemptionCheckpointHandler,
)
from mirrax.tf.distribute.experimental.preemption import (
    PreemptionWatcher as PreemptionWatcher,
)
from mirrax.tf.distribute.experimental.preemption import (
    TerminationConfig as TerminationConfig,
)
from mirrax.tf.distribute.strategies import (
    CentralStorageStrategy as CentralStorageStrategy,
)
from mirrax.tf.distribute.strategies import TPUStrategy as TPUStrategy
from mirrax.tf.namespaces.missing_names import unavailable

_MODULE = "tf.distribute.experimental"

CommunicationImplementation = CollectiveCommunication
MultiWorkerMirroredStrategy = strategies.ExperimentalMultiWorkerMirroredStrategy

ParameterServerStrategy = unavailable(f"{_MODULE}.ParameterServerStrategy")


def CollectiveHints(  # noqa: N802 - TensorFlow's name for it
    bytes_per_pack: int = 0, timeout_seconds: float | None = None
) -> CommunicationOptions:
    """The older name of `CommunicationOptions`."""
    return CommunicationOptions(bytes_per_pack, timeout_seconds)
