"""Distributed training on JAX: the tf.distribute system.

Choose a strategy, create variables in its scope, and run steps on its replicas.
"""

from mirrax import (
    cluster_resolver,
    config,
    data,
    errors,
    integrations,
    nn,
    random,
    train,
)
from mirrax.collectives import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
    ReductionToOneDevice,
)
from mirrax.devices import reserve_at_import
from mirrax.input import (
    DistributedDataset,
    DistributedIterator,
    InputContext,
    InputOptions,
    InputReplicationMode,
)
from mirrax.integrations import await_libraries
from mirrax.options import (
    CollectiveCommunication,
    CommunicationOptions,
    ReduceOp,
    RunOptions,
    VariableAggregation,
    VariableSynchronization,
)
from mirrax.run.accumulation import accumulate_gradients
from mirrax.run.function import function
from mirrax.run.gradients import value_and_grad
from mirrax.run.replica_context import ReplicaContext
from mirrax.run.tape import GradientTape
from mirrax.strategy import (
    CentralStorageStrategy,
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
    OneDeviceStrategy,
    Strategy,
    StrategyExtended,
    ValueContext,
    experimental_set_strategy,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from mirrax.values import DistributedValues, Mirrored, PerReplica
from mirrax.values.specs import TensorSpec
from mirrax.variables import Variable, variable_creator_scope

__all__ = [
    "CentralStorageStrategy",
    "CollectiveCommunication",
    "CommunicationOptions",
    "CrossDeviceOps",
    "DistributedDataset",
    "DistributedIterator",
    "DistributedValues",
    "GradientTape",
    "HierarchicalCopyAllReduce",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "Mirrored",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "PerReplica",
    "ReduceOp",
    "ReductionToOneDevice",
    "ReplicaContext",
    "RunOptions",
    "Strategy",
    "StrategyExtended",
    "TensorSpec",
    "ValueContext",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "accumulate_gradients",
    "cluster_resolver",
    "config",
    "data",
    "errors",
    "experimental_set_strategy",
    "function",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
    "nn",
    "random",
    "train",
    "value_and_grad",
    "variable_creator_scope",
]

reserve_at_import()
await_libraries()
