"""HINT: shard(SHARD_HINT, SHARD_HINT) becomes the shard of each worker, before and after other transformations; without it every worker reads everything."""


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


def case(tf, np, task_index):
    s = tf.distribute.MultiWorkerMirroredStrategy()
    hint = tf.data.experimental.SHARD_HINT
    o = tf.data.Options()
    o.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.HINT
    r = tf.data.Dataset.range(8)

    def read(d):
        return [loc(s, x) for x in s.experimental_distribute_dataset(d.with_options(o))]
    return {'first': read(r.shard(hint, hint).batch(4)), 'after map': read(r.map(lambda x: x * 10).shard(hint, hint).repeat(2).batch(4)),
            'batches': read(r.batch(4).shard(hint, hint)), 'without': read(r.batch(4))}
