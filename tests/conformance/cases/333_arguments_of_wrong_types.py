"""Arguments of wrong types: run(args=...), devices that are one string, None assigned to a variable, what is no resolver and no options."""


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
    d = tf.distribute
    s = d.MirroredStrategy(['CPU:0', 'CPU:1'])
    with s.scope():
        v = tf.Variable([1., 2.])
    W = d.MultiWorkerMirroredStrategy
    return {'args_none': err(lambda: s.run(lambda x: x, args=None)), 'args_number': err(lambda: s.run(lambda x: x, args=3.)),
            'devices': err(lambda: d.MirroredStrategy('CPU:0')), 'assign_none': err(lambda: v.assign(None)),
            'resolver': err(lambda: W(cluster_resolver='x')), 'options': err(lambda: W(communication_options='x')),
            'dataset_fn': err(lambda: s.distribute_datasets_from_function(tf.data.Dataset.range(2)))}
