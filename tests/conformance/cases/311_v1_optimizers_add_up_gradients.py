"""Optimizers of version 1 in run add up the gradients of all replicas, eager and compiled, and count global steps once."""


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
    out = {}
    for name, make in {'sgd': lambda: t.GradientDescentOptimizer(0.1), 'momentum': lambda: t.MomentumOptimizer(0.1, 0.9), 'adam': lambda: t.AdamOptimizer(0.1), 'adagrad': lambda: t.AdagradOptimizer(0.1)}.items():
        for wrap in (lambda f: f, tf.function):
            with s.scope():
                w = tf.Variable([1., 2.])
                step = tf.Variable(0, dtype=tf.int64, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
                opt = make()

            def fn():
                i = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.square(w * 0.5 - 3. + i))
                opt.apply_gradients(zip(tape.gradient(loss, [w]), [w]), global_step=step)
                return loss
            run = wrap(lambda: s.run(fn))
            losses = [loc(s, run()) for _ in range(3)]
            out.setdefault(name, []).append([losses, py(w), py(step)])
    return out
