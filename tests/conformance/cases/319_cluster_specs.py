"""ClusterSpec with numbered and listed tasks answers the same questions; unknown jobs and tasks are ValueErrors; resolvers name masters."""


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
    c = tf.train.ClusterSpec({'worker': {1: 'a:1', 3: 'b:2'}, 'ps': ['c:3']})
    r = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({'worker': ['a:1', 'b:2']}), task_type='worker', task_id=1)
    u = tf.distribute.cluster_resolver.UnionResolver(r, tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({'ps': ['c:3']})))
    return {'jobs': sorted(c.jobs), 'n': c.num_tasks('worker'), 'indices': c.task_indices('worker'), 'address': c.task_address('worker', 3), 'tasks': c.job_tasks('worker'), 'equal': c == tf.train.ClusterSpec(c), 'empty': bool(tf.train.ClusterSpec({})), 'no_task': error(lambda: c.task_address('worker', 0)), 'no_job': error(lambda: c.num_tasks('chief')), 'no_spec': error(lambda: tf.train.ClusterSpec([1])), 'master': [r.master('worker', 0), r.master('worker', 1, 'grpc'), r.task_type, r.task_id], 'union': [{k: v for k, v in sorted(u.cluster_spec().as_dict().items())}, u.task_type]}
