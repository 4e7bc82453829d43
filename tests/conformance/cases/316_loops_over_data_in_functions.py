"""A tf.function takes a distributed dataset, or its iterator, and loops over it; the last batch is partial."""


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

    def total(x):
        return s.reduce('SUM', s.run(lambda y: tf.cast(y, tf.float32) * 2., args=(x,)), axis=0)

    @tf.function
    def over_dataset(d):
        found = tf.constant(0.)
        for x in d:
            found += total(x)
        return found

    @tf.function
    def over_iterator(it):
        found = tf.constant(0.)
        for _ in range(2):
            found += total(next(it))
        return found
    d = s.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(4))
    it = iter(s.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4)))
    return {'dataset': py(over_dataset(d)), 'iterator': py(over_iterator(it))}
