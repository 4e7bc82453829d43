"""scatter_add of workers to one mirrored variable: SUM adds up the rows of all workers, MEAN averages them."""


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


def case(tf, np, task_index):
    s = tf.distribute.MultiWorkerMirroredStrategy()
    out = {}
    for name in ('SUM', 'MEAN'):
        with s.scope():
            v = tf.Variable(tf.zeros([3]), aggregation=getattr(tf.VariableAggregation, name))

        @tf.function
        def f():
            s.run(lambda: v.scatter_add(tf.IndexedSlices(tf.constant([1., 2.]) * float(task_index + 1), tf.constant([0, 2]))))
        f()
        out[name] = py(v)
    return out
