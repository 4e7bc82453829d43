"""gather of a tensor that is no PerReplica gives it back; scalars have no axis to gather along; gather and reduce belong outside of run."""


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
    scalars = s.run(lambda: tf.constant(1.) * 2.)
    return {'shared': py(s.gather(tf.constant([1.]), axis=0)), 'scalars': error(lambda: s.gather(scalars, axis=0)), 'in_run': error(lambda: s.run(lambda: s.gather(tf.constant([1.]), axis=0))), 'reduce_in_run': error(lambda: s.run(lambda: s.reduce('SUM', tf.constant(1.), axis=None))), 'run_in_run': error(lambda: s.run(lambda: s.run(lambda: 1)))}
