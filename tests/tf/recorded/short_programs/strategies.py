"""Generators, averages and options under strategies."""

# The programs are data: dense, each read as a whole.
# ruff: noqa

import tempfile

from tests.tf.recorded.error_kinds import error_of as _err


def _two(tf):
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def run_options(tf, np):
    o = tf.distribute.RunOptions()
    a, b, c = o
    p = o._replace(experimental_enable_dynamic_batch_size=False)
    return [
        a,
        c is None or str(c),
        isinstance(o, tuple),
        o == tf.distribute.RunOptions(),
        p.experimental_enable_dynamic_batch_size,
        list(o._fields),
    ]


def input_options(tf, np):
    o = tf.distribute.InputOptions(
        experimental_fetch_to_device=False, experimental_per_replica_buffer_size=3
    )
    return [
        list(o._fields),
        o[0],
        o
        == tf.distribute.InputOptions(
            experimental_fetch_to_device=False, experimental_per_replica_buffer_size=3
        ),
        isinstance(o, tuple),
        repr(tf.distribute.InputReplicationMode.PER_WORKER),
    ]


def generator_in_scope(tf, np):
    s = _two(tf)
    with s.scope():
        g = tf.random.Generator.from_seed(7)
    r = s.experimental_local_results(s.run(lambda: g.uniform([2])))
    q = s.experimental_local_results(s.run(tf.function(lambda: g.uniform([2]))))
    return [
        bool(np.allclose(r[0], r[1])),
        [x.get_shape().as_list() for x in r],
        bool(np.allclose(r[0], q[0])),
    ]


def generator_outside_scope(tf, np):
    s = _two(tf)
    g = tf.random.Generator.from_seed(7)
    return _err(lambda: s.run(lambda: g.normal([1])))[0]


def generator_in_replica(tf, np):
    s = _two(tf)

    def f():
        g = tf.random.Generator.from_seed(1)
        return g.normal([1])

    return _err(lambda: s.experimental_local_results(s.run(f)))[0]


def ema_in_scope(tf, np):
    s = _two(tf)
    with s.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
        e = tf.train.ExponentialMovingAverage(0.5)
        e.apply([v])

    def step():
        r = tf.distribute.get_replica_context().replica_id_in_sync_group
        v.assign_add(tf.cast(r + 1, tf.float32))
        e.apply([v])
        return v.read_value()

    a = s.experimental_local_results(s.run(step))
    return [a, e.average(v).numpy()]


def checkpoint_across_strategies(tf, np):
    d = tempfile.mkdtemp()
    s = _two(tf)
    with s.scope():
        v = tf.Variable([1.0, 2.0])
        w = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
        c = tf.train.Checkpoint(v=v, w=w)
    s.run(lambda: w.assign_add(2.0))
    p = c.save(d + "/x")
    o = tf.distribute.OneDeviceStrategy("CPU:0")
    with o.scope():
        a, b = (tf.Variable([0.0, 0.0]), tf.Variable(0.0))
        tf.train.Checkpoint(v=a, w=b).restore(p).assert_consumed()
    v.assign([0.0, 0.0])
    c.restore(p).assert_consumed()
    return [a.numpy(), b.numpy(), v.numpy(), w.numpy()]


def function_in_run(tf, np):
    s = _two(tf)
    with s.scope():
        v = tf.Variable(1.0)
    n = []

    @tf.function
    def step(x):
        n.append(1)

        def f(x):
            with tf.GradientTape() as t:
                l = v * x
            g = t.gradient(l, v)
            g = tf.distribute.get_replica_context().all_reduce("SUM", g)
            v.assign_sub(0.1 * g)
            return l

        return s.reduce("SUM", s.run(f, args=(x,)), axis=None)

    return [step(tf.constant(1.0)), step(tf.constant(2.0)), v.numpy(), len(n) >= 1]


def variable_created_in_run(tf, np):
    s = _two(tf)
    box = []

    @tf.function
    def step():

        def f():
            if not box:
                box.append(tf.Variable(1.0))
            return box[0] * 2.0

        return s.run(f)

    return [
        s.experimental_local_results(step()),
        s.experimental_local_results(step()),
        len(box),
    ]


def get_concrete_with_per_replica(tf, np):
    s = _two(tf)

    @tf.function
    def f(x):
        return s.run(lambda y: y * 2, args=(x,))

    v = s.experimental_distribute_values_from_function(
        lambda c: tf.constant(float(c.replica_id_in_sync_group))
    )
    return [s.experimental_local_results(f(v))]


def batch_options(tf, np):
    s = _two(tf)
    o = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    it = iter(s.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(4), o))
    r = s.run(lambda x: x + 1, args=(next(it),), options=tf.distribute.RunOptions())
    return [s.experimental_local_results(r)]
