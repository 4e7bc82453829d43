"""A custom loop: gradients of a tape, all-reduced, and plain gradient descent."""


def train(tf, np):
    random = np.random.RandomState(0)
    x = random.randn(64, 3).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.1
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16).repeat(5)
    dataset = strategy.experimental_distribute_dataset(dataset)
    with strategy.scope():
        weight = tf.Variable(tf.zeros([3, 1]))
        bias = tf.Variable(tf.zeros([1]))

    def step(batch):
        inputs, targets = batch
        with tf.GradientTape() as tape:
            outputs = tf.matmul(inputs, weight) + bias
            loss = tf.reduce_sum(tf.square(outputs - targets)) / 16.0
        gradients = tape.gradient(loss, [weight, bias])
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        weight.assign_sub(0.1 * gradients[0])
        bias.assign_sub(0.1 * gradients[1])
        return loss

    @tf.function
    def distributed_step(batch):
        losses = strategy.run(step, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return [float(distributed_step(batch)) for batch in dataset]
