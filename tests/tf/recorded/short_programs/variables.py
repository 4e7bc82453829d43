"""Parts of variables, rows of them, and their values."""

# The programs are data: dense, each read as a whole.
# ruff: noqa


def value_call(tf, np):
    v = tf.Variable([1.0, 2.0, 3.0])
    return [
        v.value(),
        v.value() + 1,
        v.read_value(),
        type(v).__name__ in ("ResourceVariable", "Variable"),
    ]


def slice_assign(tf, np):
    v = tf.Variable(tf.zeros([4, 2]))
    v[1:3].assign(tf.ones([2, 2]))
    v[0].assign([5.0, 6.0])
    v[3, 0].assign(9.0)
    return [
        v.numpy(),
        v[1],
        v[0] + v[1],
        tf.reduce_sum(v[0]),
        float(v[3, 0]),
        list(v[0].shape),
    ]


def slice_ret(tf, np):
    v = tf.Variable([1.0, 2.0])
    r = v[0].assign(7.0)
    return [r.numpy() if hasattr(r, "numpy") else r]


def slice_err(tf, np):
    v = tf.Variable([1.0, 2.0])
    v[0].assign([1.0, 2.0])


def slice_err2(tf, np):
    v = tf.Variable([[1.0, 2.0], [1.0, 2.0]])
    v[0].assign([1.0, 2.0, 3.0])


def slice_bc(tf, np):
    v = tf.Variable(tf.zeros([2, 3]))
    v[0].assign(tf.ones([3]))
    return v.numpy()


def slice_bc2(tf, np):
    v = tf.Variable(tf.zeros([2, 3]))
    v[0].assign(1.0)
    return v.numpy()


def scatter(tf, np):
    out = []
    for m in "add sub update max min mul div".split():
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        r = getattr(v, "scatter_" + m)(
            tf.IndexedSlices(
                tf.constant([[10.0, 20.0], [2.0, 4.0]]), tf.constant([2, 0])
            )
        )
        out += [v.numpy(), r.numpy()]
    return out


def scatter_nd(tf, np):
    out = []
    for m in "add sub update".split():
        v = tf.Variable([1.0, 2.0, 3.0, 4.0])
        r = getattr(v, "scatter_nd_" + m)([[1], [3]], [10.0, 20.0])
        out += [v.numpy(), r.numpy()]
    return out


def scatter_dup(tf, np):
    v = tf.Variable([1.0, 2.0, 3.0])
    v.scatter_add(tf.IndexedSlices([1.0, 1.0, 5.0], [0, 0, 2]))
    return v.numpy()


def scatter_bad(tf, np):
    tf.Variable([1.0]).scatter_add([1.0])


def sparse_read(tf, np):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    return [v.sparse_read([1, 1, 0]), v.gather_nd([[0, 1]])]


def batch_scatter(tf, np):
    v = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    v.batch_scatter_update(tf.IndexedSlices([[9.0], [8.0]], [[0], [2]]))
    return v.numpy()


def islices(tf, np):
    s = tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [3.0, 4.0]]),
        tf.constant([0, 2]),
        dense_shape=tf.constant([4, 2]),
    )
    return [
        tf.convert_to_tensor(s),
        s.shape.as_list(),
        s.dtype.name,
        (-s).values,
        s.values,
        s.indices,
        s.dense_shape,
        tf.math.add(s, 1.0),
    ]


def grad_slice(tf, np):
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as t:
        l = v[1] * v[2] + v.value()[0] ** 2
    return t.gradient(l, v)


def in_function(tf, np):
    v = tf.Variable(tf.zeros([3]))

    @tf.function
    def f(x):
        v[1].assign(x)
        v.scatter_nd_add([[2]], [x])
        v.scatter_add(tf.IndexedSlices([x], [0]))
        return v.value() * 2

    f(tf.constant(3.0))
    return [f(tf.constant(4.0)), v.numpy()]


def in_run_sum(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(tf.zeros([3]), aggregation=tf.VariableAggregation.SUM)

    def f():
        i = tf.distribute.get_replica_context().replica_id_in_sync_group
        v.scatter_add(tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2])))

    s.run(f)
    a = v.numpy()
    s.run(tf.function(f))
    return [a, v.numpy()]


def in_run_mean(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(tf.zeros([3]), aggregation=tf.VariableAggregation.MEAN)
    s.run(
        lambda: v.scatter_add(
            tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]))
        )
    )
    return v.numpy()


def in_run_update_sum(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(tf.zeros([3]), aggregation=tf.VariableAggregation.SUM)
    s.run(
        lambda: v.scatter_update(
            tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]))
        )
    )
    return v.numpy()


def in_run_update_first(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(
            tf.zeros([3]), aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )
    s.run(
        lambda: v.scatter_update(
            tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]))
        )
    )
    return v.numpy()


def in_run_none(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(tf.zeros([3]))
    s.run(
        lambda: v.scatter_update(
            tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]))
        )
    )
    return v.numpy()


def in_run_none_add(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(tf.zeros([3]))
    s.run(
        lambda: v.scatter_add(
            tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]))
        )
    )
    return v.numpy()


def cross(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(tf.zeros([3]), aggregation=tf.VariableAggregation.SUM)
        v.scatter_add(tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2])))
        a = v.numpy()
        v.scatter_update(tf.IndexedSlices([7.0], [1]))
    return [
        a,
        v.numpy(),
        [x.numpy() for x in s.experimental_local_results(v)],
        type(v).__name__,
        v.value().numpy(),
    ]


def onread(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(
            tf.zeros([3]),
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    s.run(lambda: v.assign_add([1.0, 2.0, 3.0]))
    return [v.value().numpy(), v.read_value().numpy(), type(v).__name__]


def mirrored_slice_run(tf, np):
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        v = tf.Variable(tf.zeros([3]))
    s.run(lambda: v[1].assign(5.0))
    return [x.numpy() for x in s.experimental_local_results(v)]


def names_of_modules(tf, np):
    class DenseLayer2D(tf.Module):
        def __init__(self, name=None):
            super().__init__(name)
            with self.name_scope:
                self.w = tf.Variable(1.0, name="w")

        def late(self):
            with self.name_scope as prefix:
                return prefix, tf.Variable(1.0, name="v").name

    with tf.name_scope("outer") as prefix:
        inner = DenseLayer2D("inner")
    layer = DenseLayer2D()
    with tf.name_scope("others"), tf.name_scope("outer/"), tf.name_scope(""):
        plain = tf.Variable(1.0, name="plain")
    names = [layer.name, layer.w.name, inner.w.name, plain.name, prefix]
    return *names, inner.name_scope.name, *inner.late(), tf.name_scope("a").name


def module_with_a_wrong_name(tf, np):
    tf.Module(name="$layer")


def written_in_an_init_scope(tf, np):
    made, other = [], tf.Variable(1.0)

    @tf.function
    def inner(x):
        if not made:
            made.append(tf.Variable(3.0))
            with tf.init_scope():
                made[0].assign(10.0)
                other.assign_add(1.0)
        return made[0] + other + x

    outer = tf.function(lambda x: inner(x))
    results = [outer(tf.constant(1.0))]
    made[0].assign(20.0)
    other.assign(30.0)
    return *results, outer(tf.constant(1.0)), made[0].numpy(), other.numpy()
