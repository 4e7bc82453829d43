"""Outside of every strategy there is a replica context of one replica, whose all_reduce, all_gather and merge_call work."""


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
    c = tf.distribute.get_replica_context()
    return {'n': c.num_replicas_in_sync, 'id': int(c.replica_id_in_sync_group), 'sum': py(c.all_reduce('SUM', tf.constant(2.))), 'mean': py(c.all_reduce('MEAN', [tf.constant(2.), tf.constant([3.])])), 'gather': py(c.all_gather(tf.constant([1., 2.]), axis=0)), 'merge': py(c.merge_call(lambda s, x: x + 1., args=(tf.constant(1.),))), 'strategy': c.strategy is tf.distribute.get_strategy()}
