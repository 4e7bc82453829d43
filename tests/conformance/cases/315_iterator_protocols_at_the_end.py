"""The end of a distributed iterator: StopIteration from next, OutOfRangeError from get_next, no value in an optional; a new iterator starts over."""


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
    d = s.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(4))
    it, other, third = iter(d), iter(d), iter(d)
    first = loc(s, next(it))
    other.get_next()
    some, none = third.get_next_as_optional(), third.get_next_as_optional()
    return {'first': first, 'next': error(lambda: next(it)), 'get_next': error(lambda: other.get_next()), 'optional': [bool(some.has_value()), bool(none.has_value()), loc(s, some.get_value())], 'again': loc(s, next(iter(d)))}
