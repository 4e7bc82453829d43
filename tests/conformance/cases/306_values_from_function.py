"""experimental_distribute_values_from_function gives Python values and tensors alike to run, also by name."""


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
    number = s.experimental_distribute_values_from_function(lambda c: c.replica_id_in_sync_group * 2)
    tensor = s.experimental_distribute_values_from_function(lambda c: tf.constant([float(c.replica_id_in_sync_group), float(c.num_replicas_in_sync)]))
    return {'number': loc(s, number), 'tensor': loc(s, tensor), 'type': type(tensor).__name__, 'run': loc(s, s.run(lambda x: x * 10., args=(tensor,))), 'named': loc(s, s.run(lambda x=None: x + 1., kwargs={'x': tensor})), 'sum': py(s.reduce('SUM', tensor, axis=None))}
