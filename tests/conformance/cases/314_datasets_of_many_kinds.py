"""Distributed datasets of windows, generators, strings and pairs: what each replica gets."""


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
    D = tf.data.Dataset
    sets = {'windows': D.range(12).window(4).flat_map(lambda w: w.batch(4)), 'generator': D.from_generator(lambda: iter(range(5)), output_signature=tf.TensorSpec([], tf.int32)).batch(2), 'strings': D.from_tensor_slices(['a', 'b', 'c']).batch(2), 'taken': D.range(6).map(lambda x: x * x).batch(2).take(2), 'repeated': D.range(3).repeat(2).batch(4), 'interleaved': D.range(3).interleave(lambda x: D.from_tensors(x).repeat(2), cycle_length=2).batch(3)}
    out = {}
    for k, d in sets.items():
        steps = []
        for e in s.experimental_distribute_dataset(d):
            steps.append(loc(s, e))
        out[k] = steps
    return out
