"""Ways to feed replicas, in the form of TensorFlow's guide to distributed input."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
global_batch_size = 16


def local(value):
    return [x.numpy().tolist() for x in strategy.experimental_local_results(value)]


# A dataset is divided among the replicas.
dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100)
dataset = dataset.batch(global_batch_size)
dist_dataset = strategy.experimental_distribute_dataset(dataset)


@tf.function
def train_step(inputs):
    features, labels = inputs
    return tf.reduce_sum(labels - 0.3 * features)


for x in dist_dataset:
    parts = strategy.run(train_step, args=(x,))
    print("losses", float(strategy.reduce("SUM", parts, axis=None)))


# A function makes the dataset of each worker.
def dataset_fn(input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    made = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(64).batch(16)
    made = made.shard(
        input_context.num_input_pipelines, input_context.input_pipeline_id
    )
    made = made.unbatch().batch(batch_size)
    return made.prefetch(2)


per_worker = strategy.distribute_datasets_from_function(dataset_fn)
iterator = iter(per_worker)


@tf.function(input_signature=[iterator.element_spec])
def step_with_signature(inputs):
    return strategy.run(lambda pair: tf.reduce_sum(pair[0]), args=(inputs,))


print("losses", *local(step_with_signature(next(iterator))))

# The end of the data, as an optional.
optional = None
steps = 0
iterator = iter(strategy.experimental_distribute_dataset(dataset))
while True:
    optional = iterator.get_next_as_optional()
    if not optional.has_value():
        break
    steps += 1
print("losses", steps)

# The last batch is partial.
numbers = tf.data.Dataset.range(10).batch(4)
for x in strategy.experimental_distribute_dataset(numbers):
    print("losses", *local(strategy.run(tf.reduce_sum, args=(x,))))


# Values of each replica from a function.
def value_fn(context):
    return tf.constant(float(context.replica_id_in_sync_group) + 1.0)


values = strategy.experimental_distribute_values_from_function(value_fn)
print("losses", *local(strategy.run(lambda v: v * v, args=(values,))))


# A dataset of a generator.
def gen():
    yield from ([float(i)] for i in range(6))


generated = tf.data.Dataset.from_generator(
    gen, output_signature=tf.TensorSpec(shape=(1,), dtype=tf.float32)
).batch(2)
for x in strategy.experimental_distribute_dataset(generated):
    print("losses", *[part[0][0] for part in local(x)])
