"""An exception of the function given to run, on all replicas or on one, comes out of run as it is; the strategy goes on to work."""


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

    def on_all():
        raise KeyError('mine')

    def on_one():
        if int(tf.distribute.get_replica_context().replica_id_in_sync_group) == 1:
            raise KeyError('mine')
        return tf.constant(1.)
    return {'all': error(lambda: s.run(on_all)), 'one': error(lambda: s.run(on_one)), 'no_function': error(lambda: s.run(1)) != 'no error', 'after': py(s.reduce('SUM', s.run(lambda: tf.constant(1.) * 2.), axis=None))}
