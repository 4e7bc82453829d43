"""run hands on None, numbers and nests of them as they are; tensors that are in them become PerReplica."""


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


def case(tf, np):
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    nested = s.run(lambda: (1, [2, {'a': 3}]))
    mixed = s.run(lambda: {'n': None, 't': tf.constant(2.), 'i': 5})
    return {'none': s.run(lambda: None) is None, 'nested': py(nested), 'text': loc(s, s.run(lambda: 'text')), 'mixed': [mixed['n'] is None, loc(s, mixed['t']), mixed['i']]}
