"""A TensorArray that is filled in a loop in run, compiled, with the number of the replica in it."""


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
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    with s.scope():
        w = tf.Variable(2.)

    @tf.function
    def f():
        def fn():
            i = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
            ta = tf.TensorArray(tf.float32, size=3)
            _, ta = tf.while_loop(lambda k, ta: k < 3, lambda k, ta: (k + 1, ta.write(k, w * tf.cast(k, tf.float32) + i)), [tf.constant(0), ta])
            return ta.stack()
        return s.run(fn)
    return loc(s, f())
