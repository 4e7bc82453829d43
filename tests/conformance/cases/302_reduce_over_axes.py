"""reduce over an axis, over several and over the last: SUM and MEAN of 2 x 3 on each replica."""


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

    def fn():
        i = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        return tf.reshape(tf.range(6.), [2, 3]) + i * 10.
    r = s.run(fn)
    return {f'{op}{axis}': py(s.reduce(op, r, axis=axis)) for op in ('SUM', 'MEAN') for axis in (0, 1, (0, 1), -1)}
