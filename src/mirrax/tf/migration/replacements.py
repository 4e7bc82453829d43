"""Replacements of TensorFlow names that Mirrax does not have.

A key is a name, or a module for all its names; `Use {value}.` is the advice. The same
for packages that need TensorFlow.
"""

_WORKERS = "MultiWorkerMirroredStrategy: synchronous workers without parameter servers"
_OBJECTS = "a `tf.Module`, which keeps its variables and lists them"
_CALLS = "plain calls: operations run eagerly, and `tf.function` compiles"
_PADDED = (
    "padded arrays: `Dataset.padded_batch(n, few_lengths=True)`, and "
    "`tf.sequence_mask(lengths)` as the mask"
)

NEEDING_PACKAGES = {
    "tensorflow_addons": (
        "Keras 3, which has AdamW, Lamb, GroupNormalization, F1Score and focal losses; "
        "`optax` for other optimizers"
    ),
    "tensorflow_datasets": "`tfds.data_source`, or the package `datasets`",
    "tensorflow_hub": "`keras_hub`, or models of the package `transformers`",
    "tensorflow_model_optimization": "`model.quantize` of Keras",
    "tensorflow_probability": "`tensorflow_probability.substrates.jax`",
    "tensorflow_text": "`keras_hub.tokenizers`, in the input pipeline",
}

REPLACEMENTS: dict[str, str] = {
    "tf.distribute.ParameterServerStrategy": _WORKERS,
    "tf.distribute.Server": (
        "MultiWorkerMirroredStrategy, which starts its own servers"
    ),
    "tf.distribute.coordinator": (
        "`strategy.run` of a MultiWorkerMirroredStrategy on every worker"
    ),
    "tf.distribute.coordinator.experimental_get_current_worker_index": (
        "`strategy.cluster_resolver.task_id`"
    ),
    "tf.distribute.experimental.ParameterServerStrategy": _WORKERS,
    "tf.distribute.experimental.partitioners": (
        "`jax.sharding` to split a large array over devices"
    ),
    "tf.distribute.experimental.rpc": "an RPC library, such as grpc",
    "tf.compat.v1.Session": _CALLS,
    "tf.compat.v1.disable_eager_execution": _CALLS,
    "tf.compat.v1.disable_v2_behavior": _CALLS,
    "tf.AggregationMethod": "nothing: XLA sums gradients",
    "tf.CriticalSection": "`threading.Lock` around eager code",
    "tf.Graph": "plain functions: `tf.function` compiles, without graphs",
    "tf.RegisterGradient": "`jax.custom_vjp`",
    "tf.audio": "`scipy.io.wavfile` in the input pipeline",
    "tf.batch_to_space": "`jnp.reshape` and `jnp.transpose`",
    "tf.compat.v1": "the names of TensorFlow 2",
    "tf.compat.v1.app": "`absl.app`",
    "tf.compat.v1.get_default_graph": "nothing: there are no graphs",
    "tf.compat.v1.gradients": "`tf.GradientTape`, or `mirrax.value_and_grad`",
    "tf.compat.v1.layers": "`tf.keras.layers`",
    "tf.compat.v1.placeholder": "arguments of a function",
    "tf.compat.v1.train": "`tf.keras.optimizers`, or Optax",
    "tf.compat.v1.train.MonitoredTrainingSession": (
        "a loop over `mirrax.train.resumable`, which restores and saves"
    ),
    "tf.compat.v1.train.Saver": (
        "`tf.train.Checkpoint`, and `tf.train.CheckpointManager` to keep the newest"
    ),
    "tf.compat.v1.train.SessionRunHook": "`tf.keras.callbacks.Callback`",
    "tf.compat.v1.train.summary_iterator": (
        "`tensorboard.backend.event_processing.event_file_loader.EventFileLoader"
        "(path).Load()`"
    ),
    "tf.compat.v1.trainable_variables": _OBJECTS,
    "tf.config.optimizer": "XLA_FLAGS",
    "tf.config.threading": "`tf.compat.v1.ConfigProto` at start-up",
    "tf.contrib": "the names of TensorFlow 2, or Keras",
    "tf.data.Dataset": "`Dataset.from_generator` with a generator that does the same",
    "tf.data.experimental": "the method of the same name of `tf.data.Dataset`",
    "tf.data.experimental.service": "`mirrax.data` on each worker",
    "tf.dtensor": "`jax.sharding`",
    "tf.edit_distance": "a Python library in the input pipeline",
    "tf.estimator": "`tf.keras.Model.fit`, or a loop over `strategy.run`",
    "tf.experimental.dtensor": "`jax.sharding`",
    "tf.feature_column": "`tf.keras.layers` for preprocessing",
    "tf.fingerprint": "`hashlib`",
    "tf.gradients": "`mirrax.value_and_grad`, or `tf.GradientTape`",
    "tf.graph_util": "plain functions",
    "tf.hessians": "`jax.hessian`",
    "tf.image": "`jax.image`, `dm_pix`, or Pillow in the input pipeline",
    "tf.io.gfile": "the name in lower case, such as `tf.io.gfile.exists`",
    "tf.keras": "the names of Keras 3, as in its documentation",
    "tf.keras.backend": "the function of the same name in `keras.ops`",
    "tf.keras.backend.categorical_focal_crossentropy": (
        "`tf.keras.losses.categorical_focal_crossentropy`"
    ),
    "tf.keras.backend.ctc_batch_cost": "`keras.ops.ctc_loss`, which takes logits",
    "tf.keras.backend.ctc_decode": "`keras.ops.ctc_decode`",
    "tf.keras.backend.gradients": "`tf.GradientTape`",
    "tf.keras.backend.learning_phase": "the argument `training` of `call`",
    "tf.keras.backend.random_normal_variable": "`tf.Variable(tf.random.normal(...))`",
    "tf.keras.backend.random_uniform_variable": "`tf.Variable(tf.random.uniform(...))`",
    "tf.keras.backend.resize_images": "`tf.image.resize`",
    "tf.keras.backend.rnn": "`tf.keras.layers.RNN`",
    "tf.keras.backend.set_learning_phase": "the argument `training` of `call`",
    "tf.keras.estimator": "`tf.keras.Model.fit`",
    "tf.keras.layers.CuDNNGRU": "`tf.keras.layers.GRU`",
    "tf.keras.layers.CuDNNLSTM": "`tf.keras.layers.LSTM`",
    "tf.keras.layers.HashedCrossing": "`zlib.crc32(a + b) % num_bins` in `Dataset.map`",
    "tf.keras.layers.Hashing": (
        "`zlib.crc32(text) % num_bins` in `Dataset.map`; its bins differ from Keras'"
    ),
    "tf.keras.layers.experimental": "the layer of the same name in `tf.keras.layers`",
    "tf.keras.mixed_precision.experimental": "`tf.keras.mixed_precision`",
    "tf.keras.optimizers.experimental": "`tf.keras.optimizers`",
    "tf.keras.utils.multi_gpu_model": "`tf.distribute.MirroredStrategy`",
    "tf.keras.wrappers": "the package `scikeras`",
    "tf.linalg.LinearOperator": "plain matrices, or lineax",
    "tf.linalg.eig": "`jnp.linalg.eig` (on the CPU)",
    "tf.linalg.lu": "`jax.scipy.linalg.lu`",
    "tf.linalg.sqrtm": "`jax.scipy.linalg.sqrtm`",
    "tf.lite": "`jax.export`",
    "tf.losses": "the same name in `tf.compat.v1.losses`, or `tf.keras.losses`",
    "tf.lookup": "a Python dict in the input pipeline (`Dataset.map`)",
    "tf.math.sobol_sample": "`scipy.stats.qmc.Sobol`",
    "tf.mlir": "`jax.jit(...).lower(...).as_text()`",
    "tf.nn.ctc_loss": "`optax.ctc_loss`",
    "tf.nn.experimental": "`tf.random.stateless_uniform` and a mask",
    "tf.nn.max_pool_with_argmax": "`jax.lax.reduce_window` over pairs",
    "tf.nn.sampled_softmax_loss": "`tf.nn.sparse_softmax_cross_entropy_with_logits`",
    "tf.profiler": "`jax.profiler`",
    "tf.quantization": "`aqt`, or a cast",
    "tf.queue": "`queue.Queue`",
    "tf.ragged": _PADDED,
    "tf.random.learned_unigram_candidate_sampler": "`jax.random.choice` with `p=`",
    "tf.raw_ops": "`jax.lax`",
    "tf.saved_model": "`tf.saved_model.save` and `load` (`mirrax.train.export`)",
    "tf.sets": "`jnp.unique`, `jnp.intersect1d`",
    "tf.signal": "`jax.numpy.fft` and `jax.scipy.signal`",
    "tf.sparse": "`jax.experimental.sparse`",
    "tf.strings.to_hash_bucket_fast": (
        "`zlib.crc32(text) % num_buckets` in `Dataset.map`; its buckets differ from "
        "TensorFlow's, which uses FarmHash"
    ),
    "tf.strings": "Python's `str` in the input pipeline (`Dataset.map`)",
    "tf.summary": "`tf.summary.scalar`, `histogram`, `text`, `image`, `audio`",
    "tf.sysconfig": "nothing: there is no library to link to",
    "tf.test": "`tf.test.TestCase`, `main` and `compute_gradient`, or pytest",
    "tf.tpu": "TPUStrategy: JAX starts the TPUs itself",
    "tf.train": "the same name in `tf.compat.v1.train`, or `tf.keras.optimizers`",
    "tf.train.Coordinator": "`threading.Event`",
    "tf.train.SequenceExample": "`tf.train.Example` with lists",
    "tf.types": "`jax.typing`",
    "tf.types.experimental.ConcreteFunction": (
        "`jax.make_jaxpr(function.python_function)(...)`: there is no graph"
    ),
    "tf.xla": "`tf.function`, which is always compiled by XLA",
}
