"""variable.value() in every context: plain, mirrored, synchronized on read; in run it is that of the replica."""


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
    plain = tf.Variable([1., 2.])
    with s.scope():
        v = tf.Variable(3.)
        w = tf.Variable(0., synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)
    s.run(lambda: w.assign(tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32) + 1.))
    return {'plain': py(plain.value()), 'v': py(v.value()), 'w': py(w.value()), 'v_run': loc(s, s.run(lambda: v.value() + 1.)), 'w_run': loc(s, s.run(lambda: w.value() * 10.)), 'w_compiled': loc(s, s.run(tf.function(lambda: w.value() * 10.)))}
