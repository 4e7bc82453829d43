"""Small programs against the `tf` namespace; `answers.json` has TensorFlow's answers.

Each takes `tf` and `np`, and returns plain Python: errors by the names of their classes.
To record anew: run every program with TensorFlow 2.21 on four logical CPU devices.
"""

# The programs are data: dense, each read as a whole, their lambdas called at once.
# ruff: noqa: B007, B023, E501, E741, F841, N806, PLW0108, SIM117, UP031

import functools
import tempfile


def plain(x):
    """Returns a tensor, a variable, an array or a nest of them as plain Python."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if hasattr(x, "numpy"):
        x = x.numpy()
    if hasattr(x, "tolist"):
        x = x.tolist()
    if isinstance(x, bytes):
        return x.decode()
    return [plain(v) for v in x] if isinstance(x, list) else x


def local(strategy, value):
    """Returns what each replica has of `value`, as plain Python."""
    return [plain(v) for v in strategy.experimental_local_results(value)]


def error(fn):
    """Returns the name of the class of errors that `fn` raises."""
    known = {
        *("OutOfRangeError", "InvalidArgumentError", "NotImplementedError"),
        *("StopIteration", "KeyError", "IndexError", "AttributeError"),
        *("AssertionError", "ZeroDivisionError", "ValueError", "TypeError"),
        "RuntimeError",
    }
    try:
        fn()
    except Exception as raised:
        names = [kind.__name__ for kind in type(raised).__mro__]
        return next((name for name in names if name in known), "Exception")
    return "no error"


def outcome(fn):
    """Returns what `fn` returns, or the name of the error that it raises."""
    box = []
    name = error(lambda: box.append(fn()))
    return box[0] if name == "no error" else name


@functools.cache
def mirrored(tf, n=2):
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(n)])


@functools.cache
def mirrored_v1(tf):
    return tf.compat.v1.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def replica_id(tf):
    context = tf.distribute.get_replica_context()
    return tf.cast(context.replica_id_in_sync_group, tf.float32)


def per_replica(tf, strategy, *values):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group])
    )


def default_scope(tf, np):
    s = tf.distribute.get_strategy()
    a = tf.distribute.has_strategy()
    with s.scope():
        b = [
            tf.distribute.has_strategy(),
            tf.distribute.in_cross_replica_context(),
            type(tf.Variable(1.0)).__name__ == "MirroredVariable",
        ]
    return [a, b, s is tf.distribute.get_strategy(), s.num_replicas_in_sync]


def other_scopes(tf, np):
    s = mirrored(tf)
    q = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def f():
        with s.scope():
            with q.scope():
                pass

    def g():
        with s.scope():
            q.run(lambda: 1)

    def h():
        with tf.distribute.get_strategy().scope():
            with s.scope():
                return tf.distribute.get_strategy() is s

    return [error(f), error(g), outcome(h), tf.distribute.has_strategy()]


def assign_equal_values(tf, np):
    s = mirrored(tf)
    with s.scope():
        v = tf.Variable(1.0)
    s.run(lambda: v.assign(5.0))
    a = local(s, v)
    r = s.run(lambda: v.assign_add(1.0))
    return [a, local(s, v), local(s, r)]


def sync_on_read_without_aggregation(tf, np):
    s = mirrored(tf)
    with s.scope():
        v = tf.Variable(
            1.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.NONE,
        )
    s.run(lambda: v.assign_add(replica_id(tf)))
    return [
        error(lambda: v.numpy()),
        error(lambda: v.read_value()),
        error(lambda: tf.identity(v)),
        local(s, v),
        error(lambda: v + 1.0),
        local(s, s.run(lambda: v.read_value())),
    ]


def sync_on_read_sum_across_replicas(tf, np):
    out = []
    for n in (2, 3):
        s = mirrored(tf, n)
        with s.scope():
            v = tf.Variable(
                1.0,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            a = plain(v)
            e = [error(lambda: v.assign_add(1.0)), error(lambda: v.assign_sub(1.0))]
            v.assign(6.0)
            out.append([a, e, plain(v), local(s, v)])
    return out


def kinds_of_variables(tf, np):
    s = mirrored(tf)
    out = {}
    with s.scope():
        for a in tf.VariableAggregation:
            for y in tf.VariableSynchronization:
                if y.name == "NONE":
                    continue
                v = tf.Variable(1.0, aggregation=a, synchronization=y)
                out[a.name + y.name] = [
                    type(v).__name__,
                    v.aggregation.name,
                    v.synchronization.name,
                    v.trainable,
                ]
    return out


def variables_made_by_replicas(tf, np):
    s = mirrored(tf)
    made = []

    def fn():
        v = tf.Variable(2.0, name="w")
        made.append(v)
        v.assign_add(1.0)
        return v.read_value()

    a = s.run(fn)
    box = []

    @tf.function
    def step():
        def g():
            if not box:
                box.append(tf.Variable(1.0))
            return box[0] * 2.0

        return s.run(g)

    b = outcome(lambda: local(s, step()))
    return [
        local(s, a),
        made[0] is made[1],
        type(made[0]).__name__,
        made[0].name,
        b,
        len(box),
        outcome(lambda: type(box[0]).__name__),
        outcome(lambda: local(s, step())),
    ]


def use_outside_the_scope(tf, np):
    s = mirrored(tf)
    with s.scope():
        v = tf.Variable(1.0)
    f = tf.function(lambda: v.assign_add(1.0) is None)
    f()
    v.assign_sub(0.5)
    a = plain(v)
    return [a, local(s, v), plain(v * 2.0), plain(tf.function(lambda: v + 1.0)())]


def assign_a_mirrored_value(tf, np):
    s = mirrored(tf)
    with s.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
        r = tf.Variable(
            1.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    m = s.extended.reduce_to("SUM", per_replica(tf, s, 1.0, 2.0), v)
    return [outcome(lambda: (v.assign(m), local(s, v))[1])]


def assign_a_shared_value(tf, np):
    s = mirrored(tf)
    out = {}
    for a in ("MEAN", "ONLY_FIRST_REPLICA"):
        with s.scope():
            v = tf.Variable(1.0, aggregation=getattr(tf.VariableAggregation, a))
        t = tf.constant(4.0)
        s.run(lambda: v.assign(t))
        x = plain(v)
        s.run(lambda: v.assign_add(2.0))
        out[a] = [x, plain(v)]
    with s.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    s.run(lambda: v.assign_add(tf.constant(2.0)))
    out["sum"] = plain(v)
    return out


def number_of_traces(tf, np):
    s = mirrored(tf, 1)
    n = []

    @tf.function
    def f(x):
        n.append(1)
        return x * 2.0

    for i in range(3):
        s.run(f, args=(tf.constant(1.0),))
    a = len(n)
    m = []

    @tf.function
    def g():
        return s.run(lambda: (m.append(1), tf.constant(1.0))[1])

    g()
    g()
    return [a, len(m)]


def nested_arguments_and_results(tf, np):
    s = mirrored(tf)
    x = per_replica(tf, s, 1.0, 2.0)
    r = s.run(
        lambda d, l, t: {"a": d["k"] + 1.0, "b": [l[0] * 2.0, (t[1],)]},
        args=({"k": x}, [x, 3], (1, x)),
    )
    return [
        local(s, r["a"]),
        local(s, r["b"][0]),
        local(s, r["b"][1][0]),
        type(r["b"]).__name__,
        type(r["b"][1]).__name__,
    ]


def errors_and_context_of_replicas(tf, np):
    s = mirrored(tf)
    return [
        error(lambda: s.run(lambda: (1,) if int(replica_id(tf)) else (1, 2))),
        error(lambda: s.run(lambda: {"a": 1} if int(replica_id(tf)) else {"b": 1})),
        error(lambda: s.run(lambda: 1 if int(replica_id(tf)) else [1])),
        error(lambda: s.run(lambda: 1 / 0)),
        error(lambda: s.run(lambda: tf.constant([1.0]) + tf.constant([1.0, 2.0, 3.0]))),
        local(
            s, s.run(lambda: tf.distribute.get_replica_context().num_replicas_in_sync)
        ),
        s.run(lambda: tf.distribute.get_replica_context().strategy is s),
        local(
            s,
            s.run(lambda: tf.distribute.get_replica_context().replica_id_in_sync_group),
        ),
    ]


def order_around_merge_calls(tf, np):
    s = mirrored(tf)
    L = []

    def fn():
        c = tf.distribute.get_replica_context()
        i = int(replica_id(tf))
        L.append("a%d" % i)
        c.merge_call(lambda st: L.append("m"))
        L.append("b%d" % i)
        c.merge_call(lambda st, x: L.append(local(s, x)), args=(i,))
        L.append("c%d" % i)

    s.run(fn)
    return [
        L,
        outcome(
            lambda: s.run(
                lambda: tf.distribute.get_replica_context().merge_call(
                    lambda st, a, b=None: [a, b], args=("x",), kwargs={"b": "y"}
                )
            )
        ),
    ]


def gathering_and_nested_all_reduce(tf, np):
    s = mirrored(tf)
    out = {}

    def ag(ax):
        return outcome(
            lambda: local(
                s,
                s.run(
                    lambda: tf.distribute.get_replica_context().all_gather(
                        tf.reshape(tf.range(4.0), [2, 2]) + 10.0 * replica_id(tf),
                        axis=ax,
                    )
                ),
            )
        )

    out["g"] = [ag(0), ag(1)]
    out["fn"] = outcome(
        lambda: local(
            s,
            tf.function(
                lambda: s.run(
                    lambda: tf.distribute.get_replica_context().all_gather(
                        tf.reshape(tf.range(4.0), [2, 2]) + 10.0 * replica_id(tf),
                        axis=1,
                    )
                )
            )(),
        )
    )
    out["opt"] = outcome(
        lambda: local(
            s,
            s.run(
                lambda: tf.distribute.get_replica_context().all_gather(
                    tf.constant([1.0]) * replica_id(tf),
                    0,
                    tf.distribute.experimental.CommunicationOptions(
                        timeout_seconds=30.0
                    ),
                )
            ),
        )
    )

    def ar(x):
        return s.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", x()))

    out["dict"] = outcome(
        lambda: {
            k: local(s, v)
            for k, v in ar(
                lambda: {"a": replica_id(tf), "b": replica_id(tf) * 2.0}
            ).items()
        }
    )
    out["tuple"] = outcome(
        lambda: [
            type(ar(lambda: (replica_id(tf), replica_id(tf)))).__name__,
            type(ar(lambda: [replica_id(tf), replica_id(tf)])).__name__,
        ]
    )
    return out


def parts_inside_a_replica(tf, np):
    s = mirrored(tf)
    x = per_replica(tf, s, 1.0, 2.0)
    L = []
    s.run(
        lambda t: L.append(
            [
                type(t).__name__.replace("ArrayImpl", "EagerTensor"),
                plain(t),
                list(t.shape),
                t.dtype.name,
            ]
        ),
        args=(x,),
    )
    return [
        L,
        local(s, s.run(lambda t, u: t + u, args=(x,), kwargs={"u": x})),
        local(s, s.run(lambda **k: k["a"], kwargs={"a": x})),
    ]


def gather_of_batches(tf, np):
    s = mirrored(tf)
    d = s.experimental_distribute_dataset(tf.data.Dataset.range(6).batch(4))
    a = [plain(s.gather(x, axis=0)) for x in d]

    @tf.function
    def f(x):
        return s.gather(s.run(lambda t: t * 2, args=(x,)), axis=0), s.reduce(
            "SUM", x, axis=0
        )

    b = [plain(list(f(x))) for x in d]
    return [
        a,
        b,
        outcome(
            lambda: [
                plain(tf.function(lambda x: s.reduce("MEAN", x, axis=0))(x)) for x in d
            ]
        ),
    ]


def update_with_mirrored_arguments(tf, np):
    s = mirrored(tf)
    L = []
    with s.scope():
        v = tf.Variable([1.0, 2.0])
        m = s.extended.reduce_to("MEAN", per_replica(tf, s, [1.0, 1.0], [3.0, 3.0]), v)
        a = s.extended.update(
            v, lambda x, d, k=1.0: x.assign_sub(d * k), args=(m,), kwargs={"k": 0.5}
        )
        b = s.extended.update(v, lambda x: tf.reduce_sum(x), group=False)
    return [
        local(s, v),
        [plain(t) for t in b] if isinstance(b, (list, tuple)) else local(s, b),
        type(b).__name__,
    ]


def update_non_slot(tf, np):
    s = mirrored(tf)
    L = []
    with s.scope():
        v = tf.Variable(1.0)
        w = s.extended.non_slot_devices([v])
        r = s.extended.update_non_slot(
            w,
            lambda a, k=0.0: (L.append(1), tf.constant(a + k))[1],
            args=(3.0,),
            kwargs={"k": 1.0},
            group=False,
        )
    return [
        len(L),
        [plain(t) for t in r] if isinstance(r, (list, tuple)) else local(s, r),
        type(r).__name__,
    ]


def choices_of_cross_device_ops(tf, np):
    d = tf.distribute
    out = []
    for ops in (
        d.ReductionToOneDevice(),
        d.HierarchicalCopyAllReduce(),
        d.HierarchicalCopyAllReduce(num_packs=0),
        d.ReductionToOneDevice(reduce_to_device="CPU:1"),
        d.ReductionToOneDevice(accumulation_fn=tf.add_n),
    ):
        s = d.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=ops)
        r = outcome(
            lambda: [
                local(s, x)
                for x in s.run(
                    lambda: tf.distribute.get_replica_context().all_reduce(
                        "SUM",
                        [
                            replica_id(tf) + 1.0,
                            tf.constant([1.0, 2.0]) * (replica_id(tf) + 1.0),
                        ],
                    )
                )
            ]
        )
        m = outcome(
            lambda: local(
                s,
                s.run(
                    lambda: tf.distribute.get_replica_context().all_reduce(
                        "MEAN", replica_id(tf)
                    )
                ),
            )
        )
        x = s.run(lambda: replica_id(tf) + 1.0)
        out.append(
            [
                r,
                m,
                plain(s.reduce("SUM", x, axis=None)),
                plain(s.reduce("MEAN", x, axis=None)),
            ]
        )
    s = d.MirroredStrategy(
        ["CPU:0", "CPU:1"],
        cross_device_ops=d.ReductionToOneDevice(
            accumulation_fn=lambda v: tf.add_n(v) * 10.0
        ),
    )
    out.append(
        outcome(
            lambda: local(
                s,
                s.run(
                    lambda: tf.distribute.get_replica_context().all_reduce(
                        "SUM", replica_id(tf) + 1.0
                    )
                ),
            )
        )
    )
    return out


def rebatching(tf, np):
    out = {}
    for n in (2, 3, 4):
        s = mirrored(tf, n)
        out[str(n)] = [
            [
                local(s, x)
                for x in s.experimental_distribute_dataset(
                    tf.data.Dataset.range(12).batch(b)
                )
            ]
            for b in (4, 6, 12)
        ]
        out["drop%d" % n] = [
            local(s, x)
            for x in s.experimental_distribute_dataset(
                tf.data.Dataset.range(14).batch(7, drop_remainder=True)
            )
        ]
    s = mirrored(tf)
    d = s.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
    out["again"] = [[local(s, x) for x in d] for _ in range(2)]
    out["rep"] = [
        local(s, x)
        for x in s.experimental_distribute_dataset(
            tf.data.Dataset.range(3).batch(2).repeat(2)
        )
    ]
    return out


def unbatched_elements(tf, np):
    out = {}
    for n in (1, 2):
        s = mirrored(tf, n)
        for k, d in (
            ("scalar", tf.data.Dataset.range(3)),
            ("vec", tf.data.Dataset.from_tensor_slices(np.arange(8).reshape(2, 4))),
            ("str", tf.data.Dataset.from_tensor_slices(["a", "b"])),
            (
                "tuple",
                tf.data.Dataset.zip(
                    (tf.data.Dataset.range(2), tf.data.Dataset.range(2))
                ),
            ),
        ):
            out[k + str(n)] = outcome(
                lambda: [
                    local(s, x)
                    if not isinstance(x, tuple)
                    else [local(s, y) for y in x]
                    for x in s.experimental_distribute_dataset(d)
                ]
            )
    return out


def datasets_from_function(tf, np):
    s = mirrored(tf)
    return [
        [
            local(s, x)
            for x in s.distribute_datasets_from_function(
                lambda c: tf.data.Dataset.range(6).batch(2)
            )
        ],
        [
            local(s, x)
            for x in s.distribute_datasets_from_function(
                lambda c: tf.data.Dataset.range(8).batch(2, drop_remainder=True)
            )
        ],
        [
            local(s, x)
            for x in s.distribute_datasets_from_function(
                lambda c: tf.data.Dataset.range(4)
            )
        ],
        [
            local(s, x)
            for x in s.distribute_datasets_from_function(
                lambda c: tf.data.Dataset.range(5).batch(2)
            )
        ],
    ]


def policies_and_partial_batches(tf, np):
    p = tempfile.mkdtemp()
    for i in range(2):
        with open(f"{p}/{i}", "w") as f:
            f.write("\n".join(f"{i}{c}" for c in "abcdefg") + "\n")
    out = {}
    for n in (2, 4):
        s = mirrored(tf, n)
        for pol in ("AUTO", "DATA", "OFF", "FILE"):
            o = tf.data.Options()
            o.experimental_distribute.auto_shard_policy = getattr(
                tf.data.experimental.AutoShardPolicy, pol
            )
            out[f"{n}{pol}"] = outcome(
                lambda: [
                    local(s, x)
                    for x in s.experimental_distribute_dataset(
                        tf.data.TextLineDataset([p + "/0", p + "/1"])
                        .batch(8)
                        .with_options(o)
                    )
                ]
            )
            out[f"g{n}{pol}"] = outcome(
                lambda: [
                    local(s, x)
                    for x in s.experimental_distribute_dataset(
                        tf.data.Dataset.range(9).batch(9).repeat(2).with_options(o)
                    )
                ]
            )
    return out


def iterators_of_version_1(tf, np):
    s = mirrored_v1(tf)
    it = s.make_dataset_iterator(tf.data.Dataset.range(8).batch(4))
    it.initialize()
    a = s.extended.call_for_each_replica(
        lambda x: tf.reduce_sum(x), args=(it.get_next(),)
    )
    b = s.run(lambda x: x + 1, args=(it.get_next(),))
    return [
        local(s, a),
        local(s, b),
        error(it.get_next),
        error(
            lambda: s.make_dataset_iterator(
                tf.data.Dataset.range(5).batch(5)
            ).get_next()
        ),
        outcome(
            lambda: local(
                s, s.make_dataset_iterator(tf.data.Dataset.range(5).batch(5)).get_next()
            )
        ),
    ]


def one_device(tf, np):
    o = tf.distribute.OneDeviceStrategy("/device:CPU:2")
    with o.scope():
        v = tf.Variable(1.0)
        r = tf.Variable(
            1.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
        )
    ds = o.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
    return [
        v.device.split("/")[-1],
        o.run(lambda: tf.constant(1.0)).device.split("/")[-1],
        [x.device.split("/")[-1] for x in ds],
        [plain(x) for x in ds],
        type(r).__name__.replace("ResourceVariable", "Variable"),
        o.num_replicas_in_sync,
        outcome(
            lambda: plain(
                o.run(
                    lambda x: tf.distribute.get_replica_context().all_reduce("MEAN", x),
                    args=(tf.constant([2, 3]),),
                )
            )
        ),
        o.extended.worker_devices,
    ]


def checkpoints_of_sync_on_read(tf, np):
    s = mirrored(tf)
    p = tempfile.mkdtemp() + "/c"
    out = {}
    for a in ("SUM", "MEAN", "ONLY_FIRST_REPLICA"):
        with s.scope():
            v = tf.Variable(
                0.0,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=getattr(tf.VariableAggregation, a),
            )
        s.run(lambda: v.assign(replica_id(tf) * 2.0 + 1.0))
        q = tf.train.Checkpoint(v=v).save(p + a)
        s.run(lambda: v.assign(0.0))
        tf.train.Checkpoint(v=v).restore(q)
        u = tf.Variable(9.0)
        tf.train.Checkpoint(v=u).restore(q)
        out[a] = [local(s, v), plain(v), plain(u)]
    return out


PROGRAMS = [
    default_scope,
    other_scopes,
    assign_equal_values,
    sync_on_read_without_aggregation,
    sync_on_read_sum_across_replicas,
    kinds_of_variables,
    variables_made_by_replicas,
    use_outside_the_scope,
    assign_a_mirrored_value,
    assign_a_shared_value,
    number_of_traces,
    nested_arguments_and_results,
    errors_and_context_of_replicas,
    order_around_merge_calls,
    gathering_and_nested_all_reduce,
    parts_inside_a_replica,
    gather_of_batches,
    update_with_mirrored_arguments,
    update_non_slot,
    choices_of_cross_device_ops,
    rebatching,
    unbatched_elements,
    datasets_from_function,
    policies_and_partial_batches,
    iterators_of_version_1,
    one_device,
    checkpoints_of_sync_on_read,
]
