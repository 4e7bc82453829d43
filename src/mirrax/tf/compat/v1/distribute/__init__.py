"""`tf.compat.v1.distribute`."""

from mirrax import HierarchicalCopyAllReduce as HierarchicalCopyAllReduce
from mirrax import InputReplicationMode as InputReplicationMode
from mirrax import NcclAllReduce as NcclAllReduce
from mirrax import ReduceOp as ReduceOp
from mirrax import ReductionToOneDevice as ReductionToOneDevice
from mirrax import RunOptions as RunOptions
from mirrax import experimental_set_strategy as experimental_set_strategy
from mirrax import has_strategy as has_strategy
from mirrax import in_cross_replica_context as in_cross_replica_context
from mirrax.tf.compat.v1.distribute import experimental as experimental
from mirrax.tf.compat.v1.distribute.strategies import (
    MirroredStrategy as MirroredStrategy,
)
from mirrax.tf.compat.v1.distribute.strategies import (
    OneDeviceStrategy as OneDeviceStrategy,
)
from mirrax.tf.compat.v1.distribute.strategies import Strategy as Strategy
from mirrax.tf.compat.v1.distribute.strategies import (
    StrategyExtended as StrategyExtended,
)
from mirrax.tf.compat.v1.distribute.strategies import (
    get_loss_reduction as get_loss_reduction,
)
from mirrax.tf.distribute import Server as Server
from mirrax.tf.distribute import cluster_resolver as cluster_resolver
from mirrax.tf.distribute.cross_device_ops import CrossDeviceOps as CrossDeviceOps
from mirrax.tf.distribute.default_strategy import get_strategy as get_strategy
from mirrax.tf.distribute.replica_context import InputContext as InputContext
from mirrax.tf.distribute.replica_context import ReplicaContext as ReplicaContext
from mirrax.tf.distribute.replica_context import (
    get_replica_context as get_replica_context,
)
