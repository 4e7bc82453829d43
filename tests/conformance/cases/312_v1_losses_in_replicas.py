"""Losses of version 1 in run: SUM_BY_NONZERO_WEIGHTS is per replica, reduced by MEAN over replicas it is the mean of equal parts."""


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
    losses = tf.compat.v1.losses
    s = tf.compat.v1.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])

    def fn():
        i = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        labels, given = tf.constant([[1., 0.], [0., 1.]]), tf.constant([[0.5, -1.], [2., 0.25]]) + i
        return [losses.mean_squared_error(labels, given), losses.mean_squared_error(labels, given, weights=[[1.], [0.]]), losses.sigmoid_cross_entropy(labels, given, reduction=losses.Reduction.SUM), losses.softmax_cross_entropy(labels, given), losses.huber_loss(labels, given, reduction=losses.Reduction.NONE)]
    found = s.run(fn)
    return {'parts': [loc(s, x) for x in found], 'means': [py(s.reduce(tf.distribute.ReduceOp.MEAN, x)) for x in found[:4]]}
