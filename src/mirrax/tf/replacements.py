"""What to use in place of names of TensorFlow that Mirrax does not have.

Keys are names, or modules for all names in them; `Use {value}.` is the advice.
"""

_WORKERS = "MultiWorkerMirroredStrategy: workers in step, without parameter servers"
_PREEMPTION = "`mirrax.train`, which saves before a machine is taken away"

REPLACEMENTS: dict[str, str] = {
    "tf.distribute.ParameterServerStrategy": _WORKERS,
    "tf.distribute.Server": (
        "MultiWorkerMirroredStrategy, which starts what a worker needs"
    ),
    "tf.distribute.coordinator": (
        "`strategy.run` of a MultiWorkerMirroredStrategy on every worker"
    ),
    "tf.distribute.coordinator.experimental_get_current_worker_index": (
        "`strategy.cluster_resolver.task_id`"
    ),
    "tf.distribute.experimental.ParameterServerStrategy": _WORKERS,
    "tf.distribute.experimental.PreemptionCheckpointHandler": _PREEMPTION,
    "tf.distribute.experimental.PreemptionWatcher": _PREEMPTION,
    "tf.distribute.experimental.TerminationConfig": _PREEMPTION,
    "tf.distribute.experimental.partitioners": (
        "`jax.sharding` to split a large array over devices"
    ),
    "tf.distribute.experimental.rpc": "an RPC library, such as grpc",
    "tf.compat.v1.Session": (
        "plain calls: operations run at once, and `tf.function` compiles"
    ),
    "tf.lookup": "a Python dict in the input pipeline (`Dataset.map`)",
}
