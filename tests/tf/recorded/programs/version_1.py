"""A program of the version 1 API: an input iterator, and mean aggregation on assign."""


def train(tf, np):
    strategy = tf.compat.v1.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weight = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
        dataset = tf.data.Dataset.range(80)
        dataset = dataset.map(lambda n: tf.cast(n, tf.float32) / 10.0).batch(4)
        iterator = strategy.make_dataset_iterator(dataset)
        iterator.initialize()

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.sin(x) - weight))
            weight.assign_sub(0.3 * tape.gradient(loss, weight))
            return loss

        results = []
        for _ in range(20):
            losses = strategy.experimental_run(step, iterator)
            mean = strategy.reduce(tf.distribute.ReduceOp.MEAN, losses)
            results.append(float(mean))
    return results
