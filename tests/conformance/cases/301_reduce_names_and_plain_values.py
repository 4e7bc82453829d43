"""reduce takes the name of its op in any case, knows SUM and MEAN only, and takes a plain number for no sum; an axis that is not there is an error."""


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
    r = s.run(lambda: tf.ones([2]))
    return {'lower': py(s.reduce('sum', r, axis=None)), 'max': error(lambda: s.reduce('max', r, axis=None)), 'number': error(lambda: s.reduce('SUM', 3.0, axis=None)), 'tensor_mean': py(s.reduce('MEAN', tf.constant([1., 2.]), axis=None)), 'tensor_axis': py(s.reduce('MEAN', tf.constant([1., 2.]), axis=0)), 'no_axis': error(lambda: s.reduce('SUM', r, axis=1)) != 'no error', 'all_reduce_max': error(lambda: s.run(lambda: tf.distribute.get_replica_context().all_reduce('MAX', tf.constant(1.))))}
