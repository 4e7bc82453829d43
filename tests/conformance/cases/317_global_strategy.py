"""experimental_set_strategy puts a strategy in force without a scope, until it is set to None; entering its own scope then changes nothing."""


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
    before = tf.distribute.has_strategy()
    tf.distribute.experimental_set_strategy(s)
    v = tf.Variable(1.)
    inside = [tf.distribute.has_strategy(), tf.distribute.get_strategy() is s, tf.distribute.in_cross_replica_context(), type(v).__name__]
    with s.scope():
        inside.append(tf.distribute.get_strategy() is s)
    tf.distribute.experimental_set_strategy(None)
    return {'before': before, 'inside': inside, 'after': tf.distribute.has_strategy(), 'copies': loc(s, v)}
