"""A tf.function returns tensors for Python numbers, also when it loops over a dataset; strings and a `run` with strings work in one."""


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
    data = s.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(4))

    @tf.function
    def epoch(data):
        n = 0
        for x in data:
            n += 1
        return n, 2.5, {'flag': True}

    @tf.function
    def local(data):
        for x in data:
            s.experimental_local_results(x)
        return 7
    n, half, flag = epoch(data)
    return {'n': [n.numpy().item(), n.dtype.name], 'half': [half.numpy().item(), half.dtype.name], 'flag': flag['flag'].numpy().item(),
            'local': local(data).numpy().item(), 'string': py(tf.function(lambda: tf.constant('abc'))()),
            'strings': py(tf.function(lambda: (tf.constant(1), {'a': tf.constant(['x', 'y'])}))()),
            'run': loc(s, tf.function(lambda: s.run(lambda: tf.constant('x')))())}
