"""`tf.compat.v1.distribute.experimental`."""

from mirrax import CollectiveCommunication as CollectiveCommunication
from mirrax import CommunicationOptions as CommunicationOptions
from mirrax.tf.compat.v1.distribute.strategies import (
    CentralStorageStrategy as CentralStorageStrategy,
)
from mirrax.tf.compat.v1.distribute.strategies import (
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
)
from mirrax.tf.compat.v1.distribute.strategies import TPUStrategy as TPUStrategy
from mirrax.tf.distribute.experimental import CollectiveHints as CollectiveHints
from mirrax.tf.distribute.experimental import (
    ParameterServerStrategy as ParameterServerStrategy,
)

CommunicationImplementation = CollectiveCommunication
