"""Learning rates of version 1 are functions of the global step, and optimizers call them at each step."""


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


def loc(strategy, value):
    """The local per-replica values of `value`, as plain python."""
    return [py(v) for v in strategy.experimental_local_results(value)]


def case(tf, np):
    t = tf.compat.v1.train
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    with s.scope():
        w = tf.Variable(1.)
        step = tf.Variable(0, dtype=tf.int64, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        rate = t.piecewise_constant(step, [1, 3], [0.5, 0.1, 0.01])
        opt = t.GradientDescentOptimizer(rate)

    @tf.function
    def train():
        def fn():
            with tf.GradientTape() as tape:
                loss = w * w
            opt.apply_gradients([(tape.gradient(loss, w), w)], global_step=step)
        s.run(fn)
    out = []
    for _ in range(6):
        train()
        out.append([py(w), py(step)])
    return out
