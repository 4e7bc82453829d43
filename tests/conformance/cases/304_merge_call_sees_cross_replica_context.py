"""The function of merge_call gets PerReplica values, positional or by name, in cross-replica context; what it returns reaches every replica."""


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
    seen = []

    def merge(strategy, x, y=None):
        seen.append([strategy is s, type(x).__name__, tf.distribute.in_cross_replica_context(), tf.distribute.get_replica_context() is None])
        return strategy.reduce('SUM', x, axis=None) + (0. if y is None else strategy.reduce('MEAN', y, axis=None))

    def fn():
        c = tf.distribute.get_replica_context()
        i = tf.cast(c.replica_id_in_sync_group, tf.float32) + 1.
        return c.merge_call(merge, args=(i,)), c.merge_call(merge, args=(i,), kwargs={'y': i * 10.})
    a, b = s.run(fn)
    return {'a': loc(s, a), 'b': loc(s, b), 'seen': seen}
