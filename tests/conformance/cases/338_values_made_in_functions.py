"""Values from a function, returned by a tf.function; the spec of a PerReplica; wrong shapes given to assign_add; the devices of replicas; group with a name."""


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
    for n in (1, 2):
        s = tf.distribute.MirroredStrategy(['CPU:%d' % i for i in range(n)])
        values = s.experimental_distribute_values_from_function
        rows = tf.function(lambda: values(lambda c: tf.constant([1., 2.]) * (c.replica_id_in_sync_group + 1)))
        number = tf.function(lambda: values(lambda c: tf.constant(3.) * (c.replica_id_in_sync_group + 1)))
        x = values(lambda c: tf.constant([1., 2.]))
        spec = tf.type_spec_from_value(x)
        total = tf.function(lambda y: s.reduce('SUM', y, axis=0), input_signature=[spec])
        with s.scope():
            v = tf.Variable([1., 2.])
        out[str(n)] = {
            'rows': loc(s, rows()), 'number': loc(s, number()), 'again': loc(s, rows()), 'spec': repr(spec), 'rows of a part': [list(p.shape) for p in getattr(spec, '_value_specs', (spec,))], 'total': py(total(x)),
            'shapes': [[err(lambda: getattr(v, m)([1.])), err(lambda: s.run(lambda: getattr(v, m)([1.]))), err(tf.function(lambda: getattr(v, m)([1.])))]
                       for m in ('assign', 'assign_add', 'assign_sub')],
            'devices': loc(s, s.run(lambda: tf.distribute.get_replica_context().devices)),
            'group': s.group(x, name='g')}
    o = tf.distribute.OneDeviceStrategy('CPU:1')
    out['one'] = o.run(lambda: list(tf.distribute.get_replica_context().devices))
    return out
