"""extended methods with the devices that a worker's strategy names: update_non_slot, reduce_to, broadcast_to, update; flags and devices of each worker."""


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


def case(tf, np, task_index):
    s = tf.distribute.MultiWorkerMirroredStrategy()
    x = s.extended
    with s.scope():
        v = tf.Variable(1.)
        parts = s.run(lambda: tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32) + 1.)
        x.update(v, lambda v, a: v.assign_add(a), args=(x.reduce_to('SUM', parts, v),))
        own = x.worker_devices[0]
        return {'non_slot': py(x.update_non_slot(x.non_slot_devices([v]), lambda a: a + 1., args=(tf.constant(2.),), group=False)[0]),
                'worker_devices': py(x.update_non_slot(x.worker_devices, lambda: tf.constant(1.) * 2., group=False)[0]),
                'reduce_to': py(x.reduce_to('MEAN', parts, own)), 'batch': [py(r) for r in x.batch_reduce_to('SUM', [(parts, own), (parts, 'CPU:0')])],
                'broadcast': py(x.broadcast_to(tf.constant(3.), own)), 'update': py(v), 'device': [d.split('device:')[-1] for d in x.parameter_devices],
                'flags': [x.should_checkpoint, x.should_save_summary, x.experimental_between_graph]}
