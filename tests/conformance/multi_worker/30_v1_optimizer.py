"""Optimizers of version 1 add up the gradients of all workers, eager and compiled; the global step counts once."""


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


def case(tf, np, task_index):
    t = tf.compat.v1.train
    s = tf.distribute.MultiWorkerMirroredStrategy()
    out = []
    for wrap in (lambda f: f, tf.function):
        with s.scope():
            w = tf.Variable([1., 2.])
            step = tf.Variable(0, dtype=tf.int64, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
            opt = t.MomentumOptimizer(0.1, 0.9)

        def fn():
            i = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(w * 0.5 - 3. + i))
            opt.apply_gradients(zip(tape.gradient(loss, [w]), [w]), global_step=step)
            return loss
        run = wrap(lambda: s.run(fn))
        losses = [py(run()) for _ in range(3)]
        out.append({'losses': losses, 'w': py(w), 'step': py(step)})
    return {'eager': out[0], 'compiled': out[1]}
