"""AUTO on one worker where only some data come from files: each batch is cut on its own, as with DATA; all from files: the rows are joined."""

import os
import tempfile


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
    folder = tempfile.mkdtemp()
    names = []
    for i in range(3):
        names.append(os.path.join(folder, '%d.txt' % i))
        with open(names[-1], 'w') as f:
            f.write(''.join('%d.%d\n' % (i, j) for j in range(3 - i)))
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    D, T = tf.data.Dataset, tf.data.TextLineDataset

    def go(d):
        return [[loc(s, q) for q in x] if isinstance(x, tuple) else loc(s, x) for x in s.experimental_distribute_dataset(d)]
    return {'zip': go(D.zip((T(names), D.range(6))).batch(4)), 'enumerate': go(T(names).enumerate().batch(4)),
            'concatenate': go(T(names).concatenate(T(names[:1])).batch(4)), 'files': go(T(names).batch(4)),
            'listed': go(D.list_files(folder + '/*.txt', shuffle=False).flat_map(T).batch(4))}
