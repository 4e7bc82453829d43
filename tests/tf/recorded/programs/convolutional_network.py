"""A small convolutional network with Adam written out, on four replicas."""

BATCH = 8


def train(tf, np):
    random = np.random.RandomState(2)
    images = random.randn(32, 8, 8, 1).astype(np.float32)
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype(np.int32)
    starts = {
        "conv": 0.3 * random.randn(3, 3, 1, 4),
        "dense": 0.1 * random.randn(64, 2),
    }
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(4)])
    with strategy.scope():
        weights = {k: tf.Variable(v.astype(np.float32)) for k, v in starts.items()}
        means = {k: tf.Variable(tf.zeros_like(v)) for k, v in weights.items()}
        squares = {k: tf.Variable(tf.zeros_like(v)) for k, v in weights.items()}
        count = tf.Variable(0.0, trainable=False)

    def predict(image):
        hidden = tf.nn.conv2d(image, weights["conv"], strides=1, padding="SAME")
        hidden = tf.nn.max_pool2d(tf.nn.relu(hidden), 2, 2, padding="VALID")
        flat = tf.reshape(hidden, [-1, 4 * 4 * 4])
        return tf.matmul(flat, weights["dense"])

    def update(name, gradient):
        means[name].assign(0.9 * means[name] + 0.1 * gradient)
        squares[name].assign(0.999 * squares[name] + 0.001 * tf.square(gradient))
        mean = means[name] / (1.0 - tf.pow(0.9, count))
        square = squares[name] / (1.0 - tf.pow(0.999, count))
        weights[name].assign_sub(0.01 * mean / (tf.sqrt(square) + 1e-7))

    def step(image, label):
        with tf.GradientTape() as tape:
            one_hot = tf.one_hot(label, 2)
            losses = tf.nn.softmax_cross_entropy_with_logits(one_hot, predict(image))
            loss = tf.reduce_sum(losses) / BATCH
        gradients = tape.gradient(loss, weights)
        gradients = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
        count.assign_add(1.0)
        for name, gradient in gradients.items():
            update(name, gradient)
        return loss

    @tf.function
    def distributed_step(image, label):
        return strategy.reduce(
            "SUM", strategy.run(step, args=(image, label)), axis=None
        )

    dataset = (
        tf.data.Dataset.from_tensor_slices((images, labels)).repeat(5).batch(BATCH)
    )
    distributed = strategy.experimental_distribute_dataset(dataset)
    return [float(distributed_step(*batch)) for batch in distributed]
