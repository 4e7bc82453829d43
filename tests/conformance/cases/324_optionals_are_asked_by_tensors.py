"""has_value() of an optional is a boolean tensor, for datasets and distributed datasets, on one replica and on two."""


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


def case(tf, np):
    out = {}
    for name, s in (('two', tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])), ('one', tf.distribute.OneDeviceStrategy('CPU:0')), ('default', tf.distribute.get_strategy())):
        it = iter(s.experimental_distribute_dataset(tf.data.Dataset.range(3).batch(2)))
        rows = []
        o = it.get_next_as_optional()
        while o.has_value():
            rows.append([o.has_value().numpy().item(), o.has_value().dtype.name, loc(s, o.get_value())])
            o = it.get_next_as_optional()
        out[name] = [rows, o.has_value().numpy().item(), err(o.get_value)]
    return out
