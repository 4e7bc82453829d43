"""Distributed training on JAX: the tf.distribute system.

Choose a strategy, create variables in its scope, and run steps on its replicas.
"""

from mirrax import config as config
from mirrax import data as data
from mirrax import errors as errors
from mirrax import random as random
from mirrax.collectives import CrossDeviceOps as CrossDeviceOps
from mirrax.collectives import HierarchicalCopyAllReduce as HierarchicalCopyAllReduce
from mirrax.collectives import NcclAllReduce as NcclAllReduce
from mirrax.collectives import ReductionToOneDevice as ReductionToOneDevice
from mirrax.devices import reserve_at_import
from mirrax.input import DistributedDataset as DistributedDataset
from mirrax.options import CollectiveCommunication as CollectiveCommunication
from mirrax.options import CommunicationOptions as CommunicationOptions
from mirrax.options import ReduceOp as ReduceOp
from mirrax.options import RunOptions as RunOptions
from mirrax.options import VariableAggregation as VariableAggregation
from mirrax.options import VariableSynchronization as VariableSynchronization
from mirrax.run.function import function as function
from mirrax.run.gradients import value_and_grad as value_and_grad
from mirrax.run.replica_context import ReplicaContext as ReplicaContext
from mirrax.run.tape import GradientTape as GradientTape
from mirrax.strategy import MirroredStrategy as MirroredStrategy
from mirrax.strategy import OneDeviceStrategy as OneDeviceStrategy
from mirrax.strategy import Strategy as Strategy
from mirrax.strategy import StrategyExtended as StrategyExtended
from mirrax.strategy import ValueContext as ValueContext
from mirrax.strategy import experimental_set_strategy as experimental_set_strategy
from mirrax.strategy import get_replica_context as get_replica_context
from mirrax.strategy import get_strategy as get_strategy
from mirrax.strategy import has_strategy as has_strategy
from mirrax.strategy import in_cross_replica_context as in_cross_replica_context
from mirrax.values import DistributedValues as DistributedValues
from mirrax.values import Mirrored as Mirrored
from mirrax.values import PerReplica as PerReplica
from mirrax.values.specs import TensorSpec as TensorSpec
from mirrax.variables import Variable as Variable
from mirrax.variables import variable_creator_scope as variable_creator_scope

reserve_at_import()
