"""A classifier as a tf.Module with momentum; the last batch is smaller."""

BATCH = 10


def train(tf, np):
    random = np.random.RandomState(1)
    x = random.randn(46, 4).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32) + (x[:, 2] > 0.5).astype(np.int32)
    first = 0.5 * random.randn(4, 8).astype(np.float32)
    second = 0.5 * random.randn(8, 3).astype(np.float32)

    class Dense(tf.Module):
        def __init__(self, kernel):
            super().__init__()
            self.kernel = tf.Variable(kernel, name="kernel")
            self.bias = tf.Variable(tf.zeros([kernel.shape[1]]), name="bias")

        def __call__(self, inputs):
            return tf.matmul(inputs, self.kernel) + self.bias

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.hidden = Dense(first)
            self.outputs = Dense(second)

        def __call__(self, inputs):
            return self.outputs(tf.nn.relu(self.hidden(inputs)))

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = Model()
        variables = model.trainable_variables
        velocities = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).repeat(4)
    dataset = strategy.experimental_distribute_dataset(dataset)

    @tf.function
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=model(inputs)
            )
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, variables)
        context = tf.distribute.get_replica_context()
        for variable, velocity, gradient in zip(variables, velocities, gradients):
            total = context.all_reduce("SUM", gradient)
            velocity.assign(0.9 * velocity + total)
            variable.assign_sub(0.1 * velocity)
        return loss

    results = []
    for inputs, labels in dataset:
        losses = strategy.run(step, args=(inputs, labels))
        results.append(float(strategy.reduce("SUM", losses, axis=None)))
    return results
