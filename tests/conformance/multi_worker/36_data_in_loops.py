"""A distributed dataset of two workers in a tf.function, by get_next_as_optional and by next; nested elements with strings; sums over the workers."""


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


def err(fn):
    """The category of the exception fn raises."""
    known = ('OutOfRangeError', 'InvalidArgumentError', 'FailedPreconditionError', 'NotFoundError', 'UnimplementedError',
             'NotImplementedError', 'StopIteration', 'KeyError', 'IndexError', 'AttributeError', 'AssertionError',
             'ZeroDivisionError', 'ValueError', 'TypeError', 'RuntimeError')
    try:
        fn()
    except Exception as e:
        for c in type(e).__mro__:
            if c.__name__ in known:
                return c.__name__
        return 'Exception'
    return 'no error'


def case(tf, np, task_index):
    s = tf.distribute.MultiWorkerMirroredStrategy()
    data = s.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(4))

    @tf.function
    def epoch(data):
        total = tf.constant(0, tf.int64)
        n = 0
        for x in data:
            total += s.reduce('SUM', s.run(lambda x: tf.reduce_sum(x), args=(x,)), axis=None)
            n += 1
        return total, n
    total, n = epoch(data)
    out = {'epoch': [total.numpy().item(), n.numpy().item()]}
    it = iter(data)
    rows = []
    o = it.get_next_as_optional()
    while o.has_value().numpy():
        rows.append(loc(s, o.get_value()))
        o = it.get_next_as_optional()
    out['optional'] = rows
    it = iter(data)
    out['next'] = [loc(s, next(it)) for _ in range(3)]
    out['end'] = [err(lambda: next(it)), err(it.get_next)]
    nested = {'x': np.arange(8, dtype=np.float32), 'y': (np.arange(8), np.array(['s%d' % k for k in range(8)]))}
    for b in s.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(nested).batch(4)):
        m = s.run(lambda b: tf.reduce_mean(b['x']), args=(b,))
        out.setdefault('nested', []).append([loc(s, b['x']), loc(s, b['y'][0]), loc(s, b['y'][1]), loc(s, m)])
    return out
