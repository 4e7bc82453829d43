"""`assign*(..., read_value=False)` returns None, for plain variables and in replicas; the write happens."""


def case(tf, np):
    s = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
    with s.scope():
        v = tf.Variable(1., aggregation=tf.VariableAggregation.SUM)
        r = tf.Variable(1., aggregation=tf.VariableAggregation.SUM, synchronization=tf.VariableSynchronization.ON_READ)
    p = tf.Variable(1.)

    def fn():
        x = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32) + 1.
        return v.assign_add(x, read_value=False) is None
    return {'plain': [p.assign(2., read_value=False) is None, p.assign_add(2., read_value=False) is None, p.assign_sub(1., read_value=False) is None, p.numpy().item()],
            'replica': s.run(fn), 'v': v.numpy().item(), 'kept': p.assign(5., read_value=True).numpy().item()}
