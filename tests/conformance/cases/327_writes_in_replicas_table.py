"""assign, assign_add and assign_sub in eager replicas, for every aggregation and synchronization: results, copies, and the value read outside."""


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


def plain(x):
    """Plain python that shows which values are per replica."""
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if type(x).__name__ in ('PerReplica', 'Mirrored'):
        return [type(x).__name__, [plain(v) for v in x.values]]
    x = py(x)
    return repr(x) if isinstance(x, float) and x != x else x


def out_of(fn):
    """What fn returns, as plain python, or the category of the exception it raises."""
    found = []
    error = err(lambda: found.append(plain(fn())))
    return found[0] if found else error


def case(tf, np):
    out = {}
    for sync in ('AUTO', 'ON_READ'):
        for agg in ('NONE', 'SUM', 'MEAN', 'ONLY_FIRST_REPLICA'):
            if agg == 'NONE' and sync == 'AUTO':
                continue
            for op in ('assign', 'assign_add', 'assign_sub'):
                s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
                with s.scope():
                    v = tf.Variable(1., aggregation=getattr(tf.VariableAggregation, agg), synchronization=getattr(tf.VariableSynchronization, sync))

                def fn():
                    x = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32) * 2. + 1.
                    getattr(v, op)(x)
                    return v.read_value()
                results = loc(s, s.run(fn))
                out['%s %s %s' % (sync, agg, op)] = [results, loc(s, v), out_of(lambda: v.read_value())]
    return out
