"""element_spec of one and of two replicas is a tf.TypeSpec, on its own and inside a tuple; update_config_proto of multi-worker strategies."""


def case(tf, np):
    d = tf.data.Dataset.zip((tf.data.Dataset.range(4), tf.data.Dataset.range(4))).batch(2)
    out = {}
    for n in (1, 2):
        s = tf.distribute.MirroredStrategy(['CPU:%d' % i for i in range(n)])
        one, two = s.experimental_distribute_dataset(d).element_spec
        it = iter(s.distribute_datasets_from_function(lambda c: tf.data.Dataset.range(2).batch(1)))
        out[str(n)] = [isinstance(one, tf.TypeSpec), isinstance(two, tf.TypeSpec), isinstance(it.element_spec, tf.TypeSpec), repr(it.element_spec)]
    w = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy()
    out['config'] = w.update_config_proto(tf.compat.v1.ConfigProto()).isolate_session_state
    return out
