"""Every public name of TensorFlow 2.21's distribution modules is there."""

import importlib

import pytest

from mirrax import tf

# What `dir` of each module of TensorFlow 2.21 lists.
NAMES = {
    "distribute": """CrossDeviceOps DistributedDataset DistributedIterator
        DistributedValues HierarchicalCopyAllReduce InputContext InputOptions
        InputReplicationMode MirroredStrategy MultiWorkerMirroredStrategy NcclAllReduce
        OneDeviceStrategy ParameterServerStrategy ReduceOp ReductionToOneDevice
        ReplicaContext RunOptions Server Strategy StrategyExtended TPUStrategy
        cluster_resolver coordinator experimental experimental_set_strategy
        get_replica_context get_strategy has_strategy in_cross_replica_context""",
    "distribute.cluster_resolver": """ClusterResolver GCEClusterResolver
        KubernetesClusterResolver KubernetesExecutableLocation SimpleClusterResolver
        SlurmClusterResolver TFConfigClusterResolver TPUClusterResolver
        UnionResolver""",
    "distribute.coordinator": """ClusterCoordinator PerWorkerValue RemoteValue
        experimental_get_current_worker_index""",
    "distribute.experimental": """CentralStorageStrategy CollectiveCommunication
        CollectiveHints CommunicationImplementation CommunicationOptions
        MultiWorkerMirroredStrategy ParameterServerStrategy PreemptionCheckpointHandler
        PreemptionWatcher TPUStrategy TerminationConfig ValueContext coordinator
        partitioners rpc""",
    "distribute.experimental.coordinator": """ClusterCoordinator PerWorkerValues
        RemoteValue""",
    "distribute.experimental.partitioners": """FixedShardsPartitioner MaxSizePartitioner
        MinSizePartitioner Partitioner""",
    "distribute.experimental.rpc": "Client Server",
    "compat.v1.distribute": """CrossDeviceOps HierarchicalCopyAllReduce InputContext
        InputReplicationMode MirroredStrategy NcclAllReduce OneDeviceStrategy ReduceOp
        ReductionToOneDevice ReplicaContext RunOptions Server Strategy StrategyExtended
        cluster_resolver experimental experimental_set_strategy get_loss_reduction
        get_replica_context get_strategy has_strategy in_cross_replica_context""",
    "compat.v1.distribute.experimental": """CentralStorageStrategy
        CollectiveCommunication CollectiveHints CommunicationImplementation
        CommunicationOptions MultiWorkerMirroredStrategy ParameterServerStrategy
        TPUStrategy""",
}


@pytest.mark.parametrize("module", NAMES)
def test_module_has_every_name_of_tensorflow(module):
    ours = importlib.import_module(f"mirrax.tf.{module}")
    missing = [name for name in NAMES[module].split() if not hasattr(ours, name)]
    assert missing == []


def test_a_name_that_tensorflow_lacks_is_no_attribute():
    with pytest.raises(AttributeError, match=r"has no `tf.distribute.Nonsense`"):
        tf.distribute.Nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: tf.distribute.ParameterServerStrategy(None), "MultiWorkerMirrored"),
        (lambda: tf.distribute.coordinator.ClusterCoordinator(None), "strategy.run"),
        (
            tf.distribute.coordinator.experimental_get_current_worker_index,
            "task_id",
        ),
        (lambda: tf.distribute.Server(None), "MultiWorkerMirroredStrategy"),
        (
            tf.distribute.experimental.partitioners.MinSizePartitioner,
            "jax.sharding",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_left_out_says_what_to_use(make, advice):
    with pytest.raises(NotImplementedError, match=f"Mirrax has no .* Use .*{advice}"):
        make()
