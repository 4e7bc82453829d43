"""broadcast(tensor, destinations) to a mirrored variable with several elements, and to a device; the default is all worker devices. From the seed's text, not run."""


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


EXPECTED = {'variable': [3.0, 3.0], 'device': [3.0], 'all': [3.0, 3.0]}


def case(tf, np):
    d = tf.contrib.distribute.MirroredStrategy(devices=['CPU:0', 'CPU:1'])
    with d.scope():
        v = tf.get_variable('v', initializer=[1., 2.])
        t = tf.constant(3.)
        return {'variable': [py(x) for x in d.unwrap(d.broadcast(t, v))], 'device': [py(x) for x in d.unwrap(d.broadcast(t, '/device:CPU:1'))],
                'all': [py(x) for x in d.unwrap(d.broadcast(t))]}
