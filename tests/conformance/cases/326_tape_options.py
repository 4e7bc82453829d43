"""unconnected_gradients by name and a wrong one, output_gradients, several targets, nested sources, stop_recording, reset, a second derivative, a write between reads."""


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


def case(tf, np):
    x = tf.constant(3.)
    v = tf.Variable(2.)
    w = tf.Variable(5., trainable=False)
    out = {}
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = x * x * v + w
        z = y * 2.
    out['nest'] = plain(t.gradient(y, {'x': x, 'v': [v]}))
    out['unconnected'] = [plain(t.gradient(y, w)), plain(t.gradient(y, w, unconnected_gradients=tf.UnconnectedGradients.ZERO)), plain(t.gradient(y, w, unconnected_gradients='zero')),
                          err(lambda: t.gradient(y, w, unconnected_gradients='foo'))]
    out['targets'] = [plain(t.gradient([y, z], x)), plain(t.gradient({'y': y, 'z': z}, v)), plain(t.gradient(y, x, output_gradients=tf.constant(10.)))]
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = v * v * v
        g = inner.gradient(y, v)
    out['second'] = [plain(g), plain(outer.gradient(g, v))]
    with tf.GradientTape() as t:
        with t.stop_recording():
            y0 = v * 3.
        y = v * y0
    out['stop'] = plain(t.gradient(y, v))
    with tf.GradientTape() as t:
        y = v * 3.
        t.reset()
        y = v * 4.
    out['reset'] = plain(t.gradient(y, v))
    with tf.GradientTape() as t:
        y = v * 2.
        v.assign(10.)
        y = y + v * v
    out['assigned'] = plain(t.gradient(y, v))
    return out
