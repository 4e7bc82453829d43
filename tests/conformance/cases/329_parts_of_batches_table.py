"""How batches are split on 2 and 3 replicas: sizes that divide and do not, with and without drop_remainder, by policy."""


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
    out = {}

    def parts(s, data):
        return [loc(s, x) for x in s.experimental_distribute_dataset(data)]
    for n in (2, 3):
        s = tf.distribute.MirroredStrategy(['CPU:%d' % i for i in range(n)])
        for total, size in ((1, 1), (5, 2), (5, 4), (12, 7)):
            for drop in (False, True):
                out['%d %d %d %s' % (n, total, size, drop)] = parts(s, tf.data.Dataset.range(total).batch(size, drop_remainder=drop))
            for policy in ('OFF', 'HINT'):
                o = tf.data.Options()
                o.experimental_distribute.auto_shard_policy = getattr(tf.data.experimental.AutoShardPolicy, policy)
                out['%d %d %d %s' % (n, total, size, policy)] = parts(s, tf.data.Dataset.range(total).batch(size).with_options(o))
    return out
