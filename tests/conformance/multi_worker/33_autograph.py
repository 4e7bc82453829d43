"""`if`, `for` and `while` on tensors around and inside `run`, on several workers."""


def py(x):
    """Plain python for a tensor or variable."""
    return x.numpy().tolist()


def case(tf, np, task_index):
    s = tf.distribute.MultiWorkerMirroredStrategy()
    with s.scope():
        v = tf.Variable(0., aggregation=tf.VariableAggregation.SUM)

    def number():
        return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)

    @tf.function
    def around(n, x):
        t = tf.constant(0.)
        for k in tf.range(n):
            if t > 3.:
                t += s.reduce('SUM', s.run(number), axis=None)
            else:
                t += x
        while t < 20.:
            t *= 2.
        return t

    @tf.function
    def inside():
        def step():
            z = number()
            if z > 0.:
                z = z * 10.
            else:
                z = z - 1.
            for k in tf.range(3):
                z += tf.cast(k, tf.float32)
            v.assign_add(z)
            return z
        return s.run(step)

    out = {'around': [py(around(tf.constant(5), tf.constant(1.5))), py(around(tf.constant(2), tf.constant(30.)))], 'inside': py(inside())}
    out['v'] = py(v)
    return out
