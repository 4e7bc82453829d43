"""Normalization over all replicas, a decaying rate, and counts kept by each replica."""


def train(tf, np):
    random = np.random.RandomState(4)
    x = (3 + 2 * random.randn(40, 5)).astype(np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True)).astype(np.float32)
    start = 0.4 * random.randn(5, 1).astype(np.float32)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weight = tf.Variable(start)
        scale = tf.Variable(tf.ones([5]))
        number = tf.Variable(
            0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )
        total = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    def normalize(inputs, context):
        mean, square = context.all_reduce(
            "MEAN", [tf.reduce_mean(inputs, 0), tf.reduce_mean(tf.square(inputs), 0)]
        )
        return (inputs - mean) * tf.math.rsqrt(square - tf.square(mean) + 1e-3)

    def step(inputs, targets):
        context = tf.distribute.get_replica_context()
        with tf.GradientTape() as tape:
            outputs = tf.matmul(normalize(inputs, context) * scale, weight)
            loss = tf.reduce_mean(tf.math.squared_difference(outputs, targets))
        gradients = tape.gradient(loss, [weight, scale])
        rate = 0.1 * tf.pow(0.95, tf.cast(number, tf.float32))
        for variable, gradient in zip([weight, scale], gradients):
            variable.assign_sub(rate * context.all_reduce("MEAN", gradient))
        number.assign_add(tf.constant(1))
        total.assign_add(loss)

    distributed_step = tf.function(lambda batch: strategy.run(step, args=batch))
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    results = []
    for _ in range(20):
        distributed_step(next(iterator))
        results.append(float(total.numpy()) / 2)
        total.assign(0.0)
    return results
