"""Attention over short sequences, with a rate that warms up, on two replicas."""


def train(tf, np):
    random = np.random.RandomState(9)
    ids = random.randint(1, 9, (40, 5)).astype(np.int32)
    ids[::3, 3:] = 0
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    class Warmup(tf.keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            step = tf.cast(step, tf.float32) + 1.0
            return 0.05 * tf.minimum(tf.math.rsqrt(step), step / 8.0)

    def variable(*shape):
        return tf.Variable(0.4 * random.randn(*shape).astype(np.float32))

    with strategy.scope():
        table = variable(9, 8)
        kernels = [variable(8, 8) for _ in range(3)]
        optimizer = tf.keras.optimizers.Adam(Warmup())
        variables = [table, *kernels]
        optimizer.build(variables)

    def heads_of(x):
        parts = tf.reshape(x, [tf.shape(x)[0], -1, 2, 4])
        return tf.transpose(parts, perm=[0, 2, 1, 3])

    def logits_of(symbols):
        x = tf.gather(table, symbols)
        query, key, value = (heads_of(tf.matmul(x, kernel)) for kernel in kernels)
        scores = tf.matmul(query, key, transpose_b=True) / tf.math.sqrt(4.0)
        size = tf.shape(symbols)[1]
        ahead = 1 - tf.linalg.band_part(tf.ones((size, size)), -1, 0)
        padding = tf.cast(tf.math.equal(symbols, 0), tf.float32)
        scores += -1e9 * tf.maximum(ahead, padding[:, tf.newaxis, tf.newaxis, :])
        mixed = tf.matmul(tf.nn.softmax(scores, axis=-1), value)
        joined = tf.reshape(tf.transpose(mixed, perm=[0, 2, 1, 3]), tf.shape(x))
        return tf.einsum("bsd,vd->bsv", joined + x, table)

    def step(symbols):
        with tf.GradientTape() as tape:
            following = symbols[:, 1:]
            losses = tf.keras.losses.sparse_categorical_crossentropy(
                following, logits_of(symbols[:, :-1]), from_logits=True
            )
            mask = tf.cast(tf.math.not_equal(following, 0), tf.float32)
            loss = tf.reduce_sum(losses * mask) / 32.0
        gradients = tape.gradient(loss, variables)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    @tf.function
    def distributed_step(symbols):
        losses = strategy.run(step, args=(symbols,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    dataset = tf.data.Dataset.from_tensor_slices(ids).batch(8).repeat(4)
    distributed = strategy.experimental_distribute_dataset(dataset)
    return [float(distributed_step(batch)) for batch in distributed]
