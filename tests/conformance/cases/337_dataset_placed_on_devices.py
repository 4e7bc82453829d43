"""InputOptions that place a dataset on a device are for one dataset per replica that is not fetched; other combinations are a ValueError."""


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
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    M = tf.distribute.InputReplicationMode
    out = {}
    for mode in M:
        for fetch in (True, False):
            o = tf.distribute.InputOptions(experimental_fetch_to_device=fetch, experimental_replication_mode=mode, experimental_place_dataset_on_device=True)

            def go():
                return [loc(s, x) for x in s.distribute_datasets_from_function(lambda c: tf.data.Dataset.range(4).batch(2), o)]
            error = err(go)
            out['%s %s' % (mode.name, fetch)] = go() if error == 'no error' else error
    return out
