"""assign_add, assign and assign_sub of replicas, one after another, for each aggregation; all copies stay equal."""


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

    def replica_id():
        return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
    out = {}
    for name in ('SUM', 'MEAN', 'ONLY_FIRST_REPLICA'):
        with s.scope():
            v = tf.Variable(1., aggregation=getattr(tf.VariableAggregation, name))
        steps = []
        for write in (lambda: v.assign_add(replica_id() + 1.), lambda: v.assign(replica_id() * 3.), lambda: v.assign_sub(replica_id() + 1.)):
            s.run(write)
            steps.append(loc(s, v))
        out[name] = steps
    return out
