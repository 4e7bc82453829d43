"""scatter_add and scatter_sub of replicas add up with SUM and are averaged with MEAN; scatter_update works with ONLY_FIRST_REPLICA and is not implemented for SUM."""


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


def error(fn):
    """The name of the error that `fn` raises."""
    try:
        fn()
    except Exception as e:
        known = ('NotImplementedError', 'InvalidArgumentError', 'OutOfRangeError', 'StopIteration', 'KeyError', 'AssertionError', 'ValueError', 'TypeError', 'RuntimeError')
        names = [kind.__name__ for kind in type(e).__mro__]
        return next((n for n in names if n in known), 'Exception')
    return 'no error'


def case(tf, np):
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    out = {}
    for name in ('SUM', 'MEAN'):
        with s.scope():
            v = tf.Variable(tf.zeros([3]), aggregation=getattr(tf.VariableAggregation, name))
        s.run(lambda: v.scatter_add(tf.IndexedSlices(tf.constant([1., 2.]), tf.constant([0, 2]))))
        a = loc(s, v)
        s.run(lambda: v.scatter_sub(tf.IndexedSlices(tf.constant([4.]), tf.constant([1]))))
        out[name] = [a, loc(s, v)]
    with s.scope():
        v = tf.Variable(tf.zeros([3]), aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        w = tf.Variable(tf.zeros([3]), aggregation=tf.VariableAggregation.SUM)
    s.run(lambda: v.scatter_update(tf.IndexedSlices(tf.constant([7.]), tf.constant([1]))))
    out['first'] = loc(s, v)
    out['refused'] = error(lambda: s.run(lambda: w.scatter_update(tf.IndexedSlices(tf.constant([7.]), tf.constant([1])))))
    return out
