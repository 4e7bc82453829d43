"""extended.colocate_vars_with outside the scope of its strategy is a RuntimeError; inside, it also holds for ON_READ variables."""


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
    for name, s in (('mirrored', tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])), ('one', tf.distribute.OneDeviceStrategy('CPU:0')),
                    ('v1', tf.compat.v1.distribute.MirroredStrategy(['CPU:0', 'CPU:1']))):
        with s.scope():
            v = tf.Variable(1.)
            with s.extended.colocate_vars_with(v):
                w = tf.Variable(2., synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)

        def outside():
            with s.extended.colocate_vars_with(v):
                tf.Variable(3.)
        out[name] = [err(outside), loc(s, w)]
    return out
