"""Losses, optimizers and learning rates of version 1."""

# The programs are data: dense, each read as a whole.
# ruff: noqa


def _d(np):
    r = np.random.RandomState(0)
    return r.rand(4, 3).astype("f"), r.rand(4, 3).astype("f")


def losses(tf, np):
    L = tf.compat.v1.losses
    a, b = _d(np)
    out = []
    for f in (
        L.absolute_difference,
        L.mean_squared_error,
        L.huber_loss,
        L.log_loss,
        L.hinge_loss,
        L.sigmoid_cross_entropy,
        L.softmax_cross_entropy,
    ):
        for red in L.Reduction.all():
            for w in (
                1.0,
                np.float32(0.5),
            ) + (
                (np.array([[1.0], [0.0], [2.0], [0.0]], "f"),)
                if f is not L.softmax_cross_entropy
                else (np.array([1.0, 0.0, 2.0, 0.0], "f"),)
            ):
                out.append(f(a, b, weights=w, reduction=red))
    return [float(np.sum(o.numpy())) for o in out]


def losses2(tf, np):
    L = tf.compat.v1.losses
    a, b = _d(np)
    return [
        L.cosine_distance(a, b, axis=1),
        L.sparse_softmax_cross_entropy([0, 1, 2, 0], b),
        L.sparse_softmax_cross_entropy(
            [[0], [1], [2], [0]], b, weights=[1.0, 0.0, 1.0, 0.0]
        ),
        L.sigmoid_cross_entropy(a, b, label_smoothing=0.1),
        L.softmax_cross_entropy(a, b, label_smoothing=0.1),
        L.mean_squared_error(np.array([1, 2]), np.array([2, 5])),
        L.compute_weighted_loss([1.0, 2.0], 0.0),
        L.Reduction.SUM_BY_NONZERO_WEIGHTS,
        L.Reduction.MEAN,
        sorted(L.Reduction.all()),
    ]


def loss_err(tf, np):
    tf.compat.v1.losses.mean_squared_error([1.0, 2.0], [1.0])


def loss_err2(tf, np):
    tf.compat.v1.losses.mean_squared_error(
        [1.0, 2.0], [1.0, 2.0], weights=[1.0, 2.0, 3.0]
    )


def loss_err3(tf, np):
    tf.compat.v1.losses.mean_squared_error([1.0, 2.0], [1.0, 2.0], reduction="x")


def rates(tf, np):
    t = tf.compat.v1.train
    out = []
    for s in (0, 1, 5, 7, 10, 15, 30):
        g = tf.Variable(s, dtype=tf.int64)
        for f in (
            t.exponential_decay(0.1, g, 5, 0.5),
            t.exponential_decay(0.1, g, 5, 0.5, staircase=True),
            t.natural_exp_decay(0.1, g, 5, 0.5),
            t.inverse_time_decay(0.1, g, 5, 0.5),
            t.polynomial_decay(0.1, g, 10, 0.01, power=2.0),
            t.polynomial_decay(0.1, g, 10, 0.01, cycle=True),
            t.cosine_decay(0.1, g, 10, 0.1),
            t.piecewise_constant(g, [5, 10], [0.1, 0.05, 0.01]),
        ):
            out.append(float(f()))
    return out


def opts(tf, np):
    t = tf.compat.v1.train
    out = []
    for O in (
        lambda: t.MomentumOptimizer(0.1, 0.9),
        lambda: t.AdamOptimizer(0.1),
        lambda: t.AdagradOptimizer(0.1),
        lambda: t.RMSPropOptimizer(0.1, momentum=0.5),
        lambda: t.RMSPropOptimizer(0.1, centered=True),
        lambda: t.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda: t.GradientDescentOptimizer(lambda: 0.1),
    ):
        w = tf.Variable([1.0, 2.0])
        u = tf.Variable(0.5)
        opt = O()
        gs = tf.Variable(0, dtype=tf.int64)
        for i in range(3):
            opt.minimize(
                lambda: tf.reduce_sum(tf.square(w * 0.5 - 3.0)) * u,
                global_step=gs,
                var_list=[w, u],
            )
            out.append([w.numpy().tolist(), float(u.numpy())])
        out.append(
            [
                opt.get_slot_names() if "Adam" not in opt.get_name() else 0,
                int(gs.numpy()),
                opt.get_name(),
            ]
        )
    return out


def no_grads(tf, np):
    w = tf.Variable(1.0)
    tf.compat.v1.train.GradientDescentOptimizer(0.1).apply_gradients([(None, w)])


def ema(tf, np):
    v = tf.Variable([1.0, 2.0])
    e = tf.train.ExponentialMovingAverage(0.9)
    out = []
    for i in range(3):
        v.assign_add([1.0, 2.0])
        e.apply([v])
        out.append(e.average(v).numpy())
    n = tf.Variable(5)
    e = tf.train.ExponentialMovingAverage(0.99, num_updates=n)
    e.apply([v])
    v.assign([9.0, 9.0])
    e.apply([v])
    out.append(e.average(v).numpy())
    return out + [e.name]


def v1opt_mirrored(tf, np):
    t = tf.compat.v1.train
    s = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    out = []
    for O in (
        lambda: t.MomentumOptimizer(0.1, 0.9),
        lambda: t.AdamOptimizer(0.1),
        lambda: t.AdagradOptimizer(0.1),
    ):
        for wrap in (lambda f: f, tf.function):
            with s.scope():
                w = tf.Variable([1.0, 2.0])
                opt = O()
                gs = tf.compat.v1.train.get_or_create_global_step()

            def f():
                i = tf.cast(
                    tf.distribute.get_replica_context().replica_id_in_sync_group,
                    tf.float32,
                )
                with tf.GradientTape() as tape:
                    l = tf.reduce_sum(tf.square(w * 0.5 - 3.0 + i))
                opt.apply_gradients(zip(tape.gradient(l, [w]), [w]), global_step=gs)
                return l

            g = wrap(lambda: s.run(f))
            for i in range(3):
                out.append(s.experimental_local_results(g())[1].numpy())
            out.append(w.numpy())
    return out + [gs.numpy(), gs.name]


def v1_compute_grads_run(tf, np):
    s = tf.compat.v1.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with s.scope():
        w = tf.Variable([1.0, 2.0])
        opt = tf.compat.v1.train.GradientDescentOptimizer(0.1)

    def f():
        gv = opt.compute_gradients(lambda: tf.reduce_sum(w * w), var_list=[w])
        opt.apply_gradients(gv)
        return gv[0][0]

    r = s.run(f)
    return [w.numpy(), [x.numpy() for x in s.experimental_local_results(r)]]


def half_precision(tf, np):
    found = []
    for name in ("Adam", "RMSProp", "Momentum", "GradientDescent"):
        v = tf.Variable([1.0, 2.0], dtype=tf.float16)
        arguments = {"Momentum": (0.125, 0.5)}.get(name, (0.125,))
        optimizer = getattr(tf.compat.v1.train, f"{name}Optimizer")(*arguments)
        for _ in range(2):
            optimizer.apply_gradients([(tf.constant([0.5, 1.0], tf.float16), v)])
        found.append(tf.cast(v, tf.float32))
    return found


def minimizes_what_the_loss_reads(tf, np):
    v, w, fixed = (
        tf.Variable(1.0),
        tf.Variable([2.0]),
        tf.Variable(3.0, trainable=False),
    )
    other = tf.Variable(4.0)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    optimizer.minimize(lambda: v * v + tf.reduce_sum(w) * fixed)
    pairs = optimizer.compute_gradients(lambda: v.read_value() * w[0])
    return v, w, fixed, other, [(g, x.numpy()) for g, x in pairs]
