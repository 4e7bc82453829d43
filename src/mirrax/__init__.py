"""Distributed training on JAX: the tf.distribute system.

Choose a strategy, create variables in its scope, and run steps on its replicas.
"""

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mirrax import config, errors, random
from mirrax.collectives import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
    ReductionToOneDevice,
)
from mirrax.devices import reserve_requested
from mirrax.integrations import register_integrations
from mirrax.options import (
    CollectiveCommunication,
    CommunicationOptions,
    ReduceOp,
    RunOptions,
    VariableAggregation,
    VariableSynchronization,
)
from mirrax.run.compiled.function import Function, function
from mirrax.run.gradients.value_and_grad import value_and_grad
from mirrax.run.replica_context import ReplicaContext
from mirrax.strategy import (
    MirroredStrategy,
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
from mirrax.values.array_like import ArrayLike
from mirrax.values.tensor_spec import PerReplicaSpec, TensorSpec
from mirrax.variables import Variable, variable_creator_scope

if TYPE_CHECKING:
    from mirrax import cluster_resolver, data, launch, nn, summary, train
    from mirrax.input import (
        DistributedDataset,
        DistributedIterator,
        InputContext,
        InputOptions,
        InputReplicationMode,
    )
    from mirrax.run.control_flow import cond, eval_shape, scan, switch, while_loop
    from mirrax.run.gradients.accumulate_gradients import accumulate_gradients
    from mirrax.run.gradients.tape import GradientTape
    from mirrax.strategy.central_storage_strategy import CentralStorageStrategy
    from mirrax.strategy.multi_worker_mirrored_strategy import (
        MultiWorkerMirroredStrategy,
    )
    from mirrax.train.profiling import profile

__all__ = [
    "ArrayLike",
    "CentralStorageStrategy",
    "CollectiveCommunication",
    "CommunicationOptions",
    "CrossDeviceOps",
    "DistributedDataset",
    "DistributedIterator",
    "DistributedValues",
    "Function",
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
    "PerReplicaSpec",
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
    "cond",
    "config",
    "data",
    "errors",
    "eval_shape",
    "experimental_set_strategy",
    "function",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
    "launch",
    "nn",
    "profile",
    "random",
    "scan",
    "summary",
    "switch",
    "train",
    "value_and_grad",
    "variable_creator_scope",
    "while_loop",
]

# What is imported when it is first asked for, because not every program needs it.
_LATER = {
    "CentralStorageStrategy": "mirrax.strategy.central_storage_strategy",
    "DistributedDataset": "mirrax.input",
    "DistributedIterator": "mirrax.input",
    "GradientTape": "mirrax.run.gradients.tape",
    "InputContext": "mirrax.input",
    "InputOptions": "mirrax.input",
    "InputReplicationMode": "mirrax.input",
    "MultiWorkerMirroredStrategy": "mirrax.strategy.multi_worker_mirrored_strategy",
    "accumulate_gradients": "mirrax.run.gradients.accumulate_gradients",
    "cond": "mirrax.run.control_flow",
    "eval_shape": "mirrax.run.control_flow",
    "profile": "mirrax.train.profiling",
    "scan": "mirrax.run.control_flow",
    "switch": "mirrax.run.control_flow",
    "while_loop": "mirrax.run.control_flow",
}
_LATER_MODULES = ("cluster_resolver", "data", "launch", "nn", "summary", "train")


__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("mirrax")
    if name in _LATER_MODULES:
        return importlib.import_module(f"mirrax.{name}")
    if name in _LATER:
        value = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'mirrax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


reserve_requested()
register_integrations()
