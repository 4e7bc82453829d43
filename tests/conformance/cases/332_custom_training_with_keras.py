"""A custom loop with a Keras model, optimizer, loss and metric on two replicas: losses, weights and metric, per step, per epoch in one tf.function, and eagerly."""


def py(x):
    """Plain python for a tensor, variable, array or a nest of them."""
    if isinstance(x, dict):
        return {k: py(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [py(v) for v in x]
    if hasattr(x, 'numpy'):
        x = x.numpy()
    if hasattr(x, 'tolist'):
        x = x.tolist()
    if isinstance(x, bytes):
        return x.decode()
    if isinstance(x, list):
        return [py(v) for v in x]
    return x


def case(tf, np):
    x = np.arange(24, dtype=np.float32).reshape(8, 3) / 24.
    y = np.arange(16, dtype=np.float32).reshape(8, 2) / 16.
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    out = {}
    with s.scope():
        model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
        model.set_weights([np.arange(6, dtype=np.float32).reshape(3, 2) / 10, np.array([.1, -.1], np.float32)])
        optimizer = tf.keras.optimizers.SGD(0.1)
        loss_of = tf.keras.losses.MeanSquaredError(reduction='none')
        metric = tf.keras.metrics.MeanSquaredError()
    data = s.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(4))

    def step(batch):
        x, y = batch
        with tf.GradientTape() as t:
            p = model(x, training=True)
            loss = tf.nn.compute_average_loss(loss_of(y, p), global_batch_size=4)
        g = t.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(g, model.trainable_variables))
        metric.update_state(y, p)
        return loss

    @tf.function
    def train(batch):
        return s.reduce('SUM', s.run(step, args=(batch,)), axis=None)

    @tf.function
    def epoch(data):
        total = 0.
        n = 0
        for batch in data:
            total += s.reduce('SUM', s.run(step, args=(batch,)), axis=None)
            n += 1
        return total / tf.cast(n, tf.float32)
    out['losses'] = [py(train(b)) for b in data]
    out['metric'] = py(metric.result())
    out['epoch'] = py(epoch(data))
    out['eager'] = py(s.reduce('SUM', s.run(step, args=(next(iter(data)),)), axis=None))
    out['weights'] = py(model.get_weights())
    out['iterations'] = py(optimizer.iterations)
    return out
