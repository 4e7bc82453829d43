"""Gradients in replicas, eager and in a tf.function: through all_reduce and all_gather, second derivatives, a write inside the tape, sources without a gradient."""


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


def plain(x):
    """Plain python that shows which values are per replica."""
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if type(x).__name__ in ('PerReplica', 'Mirrored'):
        return [type(x).__name__, [plain(v) for v in x.values]]
    x = py(x)
    return repr(x) if isinstance(x, float) and x != x else x


def case(tf, np):
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    with s.scope():
        v = tf.Variable([1., 2.], aggregation=tf.VariableAggregation.MEAN)
        u = tf.Variable(4.)

    def rc():
        return tf.distribute.get_replica_context()

    def rid():
        return tf.cast(rc().replica_id_in_sync_group, tf.float32)

    def reduced():
        with tf.GradientTape() as t:
            loss = tf.reduce_sum(v * v) * (rid() + 1.)
        g = t.gradient(loss, {'v': v, 'u': u})
        return rc().all_reduce('SUM', g['v']), g['u']

    def through_all_reduce():
        with tf.GradientTape() as t:
            loss = tf.reduce_sum(rc().all_reduce('SUM', v * (rid() + 1.)))
        return t.gradient(loss, v)

    def through_mean():
        with tf.GradientTape() as t:
            loss = rc().all_reduce('MEAN', u * u * (rid() + 1.))
        return t.gradient(loss, u)

    def through_all_gather():
        with tf.GradientTape() as t:
            loss = rc().all_gather(tf.reshape(u * (rid() + 1.), [1]), axis=0)
        return t.gradient(loss, u)

    def second():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = u * u * u * (rid() + 1.)
            g = inner.gradient(y, u)
        return outer.gradient(g, u)

    def writing():
        with tf.GradientTape() as t:
            loss = tf.reduce_sum(v) * u
            v.assign_add([1., 1.])
        return t.gradient(loss, [v, u])
    out = {}
    for f in (reduced, through_all_reduce, through_mean, through_all_gather, second, writing):
        out[f.__name__] = [plain(s.run(f)), plain(tf.function(lambda: s.run(f))())]
    out['v'] = py(v)
    return out
