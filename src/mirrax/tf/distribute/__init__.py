"""`tf.distribute`: every name that TensorFlow has there."""

from mirrax import DistributedDataset as DistributedDataset
from mirrax import DistributedIterator as DistributedIterator
from mirrax import DistributedValues as DistributedValues
from mirrax import HierarchicalCopyAllReduce as HierarchicalCopyAllReduce
from mirrax import InputOptions as InputOptions
from mirrax import InputReplicationMode as InputReplicationMode
from mirrax import NcclAllReduce as NcclAllReduce
from mirrax import ReduceOp as ReduceOp
from mirrax import ReductionToOneDevice as ReductionToOneDevice
from mirrax import RunOptions as RunOptions
from mirrax import experimental_set_strategy as experimental_set_strategy
from mirrax import has_strategy as has_strategy
from mirrax import in_cross_replica_context as in_cross_replica_context
from mirrax.tf.data.input_iterator import InputIterator as InputIterator
from mirrax.tf.distribute import cluster_resolver as cluster_resolver
from mirrax.tf.distribute import coordinator as coordinator
from mirrax.tf.distribute import experimental as experimental
from mirrax.tf.distribute.cross_device_ops import CrossDeviceOps as CrossDeviceOps
from mirrax.tf.distribute.default_strategy import get_strategy as get_strategy
from mirrax.tf.distribute.replica_context import InputContext as InputContext
from mirrax.tf.distribute.replica_context import ReplicaContext as ReplicaContext
from mirrax.tf.distribute.replica_context import (
    get_replica_context as get_replica_context,
)
from mirrax.tf.distribute.strategies import MirroredStrategy as MirroredStrategy
from mirrax.tf.distribute.strategies import (
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
)
from mirrax.tf.distribute.strategies import OneDeviceStrategy as OneDeviceStrategy
from mirrax.tf.distribute.strategies import Strategy as Strategy
from mirrax.tf.distribute.strategies import StrategyExtended as StrategyExtended
from mirrax.tf.distribute.strategies import TPUStrategy as TPUStrategy
from mirrax.tf.namespaces.missing_names import unavailable

ParameterServerStrategy = unavailable("tf.distribute.ParameterServerStrategy")
Server = unavailable("tf.distribute.Server")
