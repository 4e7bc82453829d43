"""Outside of run scatter_add, scatter_max and scatter_update change all copies of a mirrored variable with aggregation NONE."""


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
    with s.scope():
        v = tf.Variable([[1., 2.], [3., 4.], [5., 6.]])
        rows = tf.IndexedSlices(tf.constant([[10., 0.], [-1., 20.]]), tf.constant([2, 0]))
        out = []
        for name in ('scatter_add', 'scatter_sub', 'scatter_max', 'scatter_min', 'scatter_mul', 'scatter_update'):
            getattr(v, name)(rows)
            out.append(loc(s, v))
    return out
