"""Python that decides on tensors, in programs for TensorFlow and for `mirrax.tf`.

Each program takes `tf` and `np`, and returns what a list of plain numbers can be made
of. `python_flow.json` has what TensorFlow 2.21 gives, recorded in an environment of its
own with

    python tests/tf/recorded/python_flow.py
"""

# The programs are data: dense, each read as a whole, their lambdas called at once.
# ruff: noqa: B023, E741, F841, N806, SIM108

import functools
import json
import pathlib

RESULTS = pathlib.Path(__file__).with_name("python_flow.json")
PROGRAMS = {}


def program(fn):
    PROGRAMS[fn.__name__] = fn
    return fn


def plain(value):
    """Returns what a program gives as plain Python."""
    import numpy as np

    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str | bool | type(None)):
        return value
    return np.asarray(value).tolist()


def rounded(value):
    """Returns a result of `plain` with few digits."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


@functools.cache
def mirrored(tf):
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@functools.cache
def one_device_strategy(tf):
    return tf.distribute.OneDeviceStrategy("CPU:0")


def local(tf, value):
    return plain(mirrored(tf).experimental_local_results(value))


def per_replica(tf, fn):
    return mirrored(tf).experimental_distribute_values_from_function(
        lambda context: fn(context.replica_id_in_sync_group)
    )


def read(variable):
    return plain(variable.read_value())


@program
def and_or_not(tf, np):
    @tf.function
    def f(a, b):
        if a > 0 and b > 0:
            return tf.constant(1)
        if not (a > 0) or b > 5:
            return tf.constant(2)
        return tf.constant(3)

    return (
        f(tf.constant(1), tf.constant(1)),
        f(tf.constant(-1), tf.constant(1)),
        f(tf.constant(1), tf.constant(-1)),
    )


@program
def chained_cmp(tf, np):
    @tf.function
    def f(a):
        if 0 < a < 5:
            return tf.constant(1)
        if a >= 5:
            return tf.constant(2)
        return tf.constant(3)

    return f(tf.constant(1)), f(tf.constant(7)), f(tf.constant(-1))


@program
def try_around_raise(tf, np):
    @tf.function
    def f(x):
        try:
            if x > 0:
                y = x * 2
            else:
                y = x * 3
        except TypeError as e:
            raise ValueError("bad") from e
        finally:
            pass
        return y

    return f(tf.constant(1.0)), f(tf.constant(-1.0))


@program
def nested(tf, np):
    @tf.function
    def g(x):
        if x > 0:
            return x + 1
        return x - 1

    @tf.function
    def h(x):
        return x * 100

    @tf.function
    def f(x):
        y = g(x)
        if y > 5:
            return h(y)
        return g(y)

    return (
        f(tf.constant(1)),
        f(tf.constant(10)),
        f(tf.constant(-1)),
        h.experimental_get_tracing_count(),
    )


@program
def method(tf, np):
    class A:
        def __init__(self, k):
            self.k = k

        @tf.function
        def m(self, x):
            if x > self.k:
                return x
            return tf.constant(self.k)

    a, b = A(3), A(5)
    return (
        a.m(tf.constant(4)),
        a.m(tf.constant(1)),
        b.m(tf.constant(4)),
        b.m(tf.constant(9)),
    )


@program
def tape_inside(tf, np):
    v = tf.Variable(3.0)

    @tf.function
    def f(x):
        with tf.GradientTape() as t:
            if x > 0:
                y = v * v * x
            else:
                y = v * x
        return t.gradient(y, v)

    return f(tf.constant(2.0)), f(tf.constant(-2.0))


@program
def tape_outside(tf, np):
    v = tf.Variable(3.0)

    @tf.function
    def f(x):
        if x > 0:
            return v * v * x
        return v * x

    out = []
    for x in (2.0, -2.0):
        with tf.GradientTape() as t:
            y = f(tf.constant(x))
        out.append(t.gradient(y, v))
    return out


@program
def signature(tf, np):
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def f(x):
        if x > 0:
            return x
        return -x

    out = [f(tf.constant(-1.0))]
    for bad in (tf.constant([1.0, 2.0]), tf.constant(1)):
        try:
            f(bad)
            out.append("no")
        except (TypeError, ValueError) as e:
            out.append("refused")
    return out, f.experimental_get_tracing_count()


@program
def replica_decides(tf, np):
    with mirrored(tf).scope():
        v = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    def rep(x):
        v.assign_add(x)
        if tf.reduce_sum(x) > 1.5:
            return x * 10
        return x

    @tf.function
    def step(x):
        return mirrored(tf).run(rep, (x,))

    pv = per_replica(tf, lambda i: tf.constant(1.0 + i))
    return local(tf, step(pv)), read(v), local(tf, step(pv)), read(v)


@program
def run_of_function(tf, np):
    @tf.function
    def rep(x):
        if x > 1.5:
            return x * 10
        return x

    pv = per_replica(tf, lambda i: tf.constant(1.0 + i))
    return local(tf, mirrored(tf).run(rep, (pv,))), local(
        tf, mirrored(tf).run(rep, (pv,))
    )


@program
def one_device(tf, np):
    @tf.function
    def rep(x):
        if x > 1.5:
            return x * 10
        return x

    @tf.function
    def step(x):
        y = one_device_strategy(tf).run(rep, (x,))
        if y > 5:
            return y
        return -y

    return (
        one_device_strategy(tf).run(rep, (tf.constant(2.0),)),
        step(tf.constant(1.0)),
        step(tf.constant(2.0)),
    )


@program
def default_strategy(tf, np):
    D = tf.distribute.get_strategy()

    def rep(x):
        if x > 1.5:
            return x * 10
        return x

    @tf.function
    def step(x):
        return D.run(rep, (x,))

    return step(tf.constant(1.0)), step(tf.constant(2.0))


@program
def cross_decision(tf, np):
    with mirrored(tf).scope():
        v = tf.Variable(0.0)

    def rep(x):
        v.assign_add(1.0)
        return x * 2

    @tf.function
    def step(x):
        y = mirrored(tf).reduce("SUM", mirrored(tf).run(rep, (x,)), axis=None)
        if y > 5:
            mirrored(tf).run(rep, (x,))
        return y

    return (
        step(per_replica(tf, lambda i: tf.constant(1.0 + i))),
        read(v),
        step(per_replica(tf, lambda i: tf.constant(0.0 + i))),
        read(v),
    )


@program
def replica_calls_different_functions(tf, np):
    @tf.function
    def a(x):
        return x + 100

    @tf.function
    def b(x):
        return x - 100

    def rep(x):
        if x > 1.5:
            return a(x)
        return b(x)

    @tf.function
    def step(x):
        return mirrored(tf).run(rep, (x,))

    return local(tf, step(per_replica(tf, lambda i: tf.constant(1.0 + i))))


@program
def replica_decides_allreduce(tf, np):
    def rep(x):
        t = tf.distribute.get_replica_context().all_reduce("SUM", x)
        if t > 2.0:
            return t * x
        return x

    @tf.function
    def step(x):
        return mirrored(tf).run(rep, (x,))

    return local(tf, step(per_replica(tf, lambda i: tf.constant(1.0 + i)))), local(
        tf, step(per_replica(tf, lambda i: tf.constant(0.0 + i)))
    )


@program
def replica_tape(tf, np):
    with mirrored(tf).scope():
        w = tf.Variable(2.0, aggregation=tf.VariableAggregation.MEAN)

    def rep(x):
        with tf.GradientTape() as t:
            y = w * x
            if y > 3:
                l = y * y
            else:
                l = y
        g = t.gradient(l, w)
        g = tf.distribute.get_replica_context().all_reduce("SUM", g)
        w.assign_sub(0.1 * g)
        return l

    @tf.function
    def step(x):
        return mirrored(tf).run(rep, (x,))

    p = per_replica(tf, lambda i: tf.constant(1.0 + i))
    return local(tf, step(p)), round(read(w), 4), local(tf, step(p)), round(read(w), 4)


@program
def raise_in_branch(tf, np):
    @tf.function
    def f(x):
        if x > 0:
            return x
        tf.debugging.assert_greater(x, -5)
        return -x

    return f(tf.constant(1)), f(tf.constant(-2))


@program
def eager_flag(tf, np):
    seen = []

    @tf.function
    def f(x):
        seen.append(1)
        return x * 2

    tf.config.run_functions_eagerly(True)
    a = tf.config.functions_run_eagerly()
    try:
        r = [f(tf.constant(1)), f(tf.constant(2))]
    finally:
        tf.config.run_functions_eagerly(False)
    n = len(seen)
    f(tf.constant(1))
    f(tf.constant(2))
    return a, r, n, len(seen), tf.config.functions_run_eagerly()


@program
def eager_flag_numpy(tf, np):
    @tf.function
    def f(x):
        return float(x.numpy()) * 2

    tf.config.run_functions_eagerly(True)
    try:
        return f(tf.constant(1.5))
    finally:
        tf.config.run_functions_eagerly(False)


@program
def concrete_tensor(tf, np):
    @tf.function
    def f(x, k):
        return x * k

    c = f.get_concrete_function(tf.constant(1.0), 3)
    return (
        c(tf.constant(5.0)),
        f.experimental_get_tracing_count(),
        f(tf.constant(2.0), 3),
        f.experimental_get_tracing_count(),
    )


@program
def cond_numbers(tf, np):
    @tf.function
    def f(x):
        return tf.cond(x > 0, lambda: 1.0, lambda: 2.0)

    r = f(tf.constant(1))
    return r, r.dtype.name


@program
def cond_mixed(tf, np):
    out = []
    for a, b in (
        (1, 2.0),
        (1.0, tf.constant(2.0)),
        (tf.constant(1.0), 2),
        (True, 1),
        (tf.constant(1.0), tf.constant(1)),
    ):

        @tf.function
        def f(x):
            return tf.cond(x > 0, lambda: a, lambda: b)

        try:
            r = f(tf.constant(1))
            out.append((float(r), r.dtype.name))
        except Exception as e:
            out.append(
                "TypeError"
                if isinstance(e, (TypeError, ValueError))
                else type(e).__name__
            )
    return out


@program
def cond_eager_numbers(tf, np):
    r = tf.cond(tf.constant(1) > 0, lambda: 1, lambda: 2.0)
    return type(r).__name__ if isinstance(r, (int, float)) else (float(r), r.dtype.name)


@program
def cond_structure(tf, np):
    @tf.function
    def f(x):
        return tf.cond(x > 0, lambda: (x, 1), lambda: (x * 2, 3))

    a, b = f(tf.constant(2))
    a2, b2 = f(tf.constant(-2))
    return a, b, a2, b2, b.dtype.name


@program
def while_numbers(tf, np):
    @tf.function
    def f(n):
        return tf.while_loop(
            lambda i, t: i < n, lambda i, t: (i + 1, t + 2.0), (0, 0.0)
        )

    a, b = f(tf.constant(3))
    return a, b, a.dtype.name, b.dtype.name


@program
def while_weak(tf, np):
    @tf.function
    def f(n):
        return tf.while_loop(
            lambda i, t: i < n,
            lambda i, t: (i + 1, t * 0.5),
            [tf.constant(0), tf.constant(8.0)],
        )

    a, b = f(tf.constant(3))
    return a, b, b.dtype.name


@program
def while_badtype(tf, np):
    @tf.function
    def f(n):
        return tf.while_loop(
            lambda i: i < n,
            lambda i: (tf.cast(i, tf.float32) + 1.0,),
            (tf.constant(0),),
        )

    try:
        f(tf.constant(3))
        return "no"
    except (TypeError, ValueError):
        return "refused"


@program
def switch_mixed(tf, np):
    @tf.function
    def f(i):
        return tf.switch_case(
            i, [lambda: 1.0, lambda: tf.constant(2.0), lambda: np.float32(3.0)]
        )

    r = f(tf.constant(0))
    return r, f(tf.constant(1)), f(tf.constant(8)), r.dtype.name


@program
def var_lambda_random(tf, np):
    class M(tf.Module):
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(lambda: tf.random.normal((3,)))
            return x + tf.reduce_sum(self.v * 0.0)

    m = M()
    return m(tf.constant(1.0)), m.v.shape.as_list()


@program
def var_from_const_in_trace(tf, np):
    class M(tf.Module):
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(tf.zeros((2,)) + 1.0)
            self.v.assign_add([1.0, 1.0])
            return tf.reduce_sum(self.v) * x

    m = M()
    return m(tf.constant(1.0)), m(tf.constant(2.0)), read(m.v)


@program
def var_from_arg(tf, np):
    class M(tf.Module):
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(x * 2.0)
            return self.v + x

    m = M()
    return m(tf.constant(1.0)), m(tf.constant(5.0)), read(m.v)


@program
def var_from_var(tf, np):
    w = tf.Variable(4.0)

    class M(tf.Module):
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(w * 2.0)
            w.assign_add(1.0)
            return self.v + x

    m = M()
    return m(tf.constant(1.0)), read(m.v), read(w)


@program
def var_initialized_value(tf, np):
    w = tf.Variable(4.0)

    class M(tf.Module):
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(lambda: w + 1.0)
            return self.v + x

    m = M()
    return m(tf.constant(1.0)), read(m.v)


@program
def shape_decision(tf, np):
    @tf.function
    def f(x):
        if x.shape[0] > 2:
            return tf.reduce_sum(x)
        return x[0]

    return (
        f(tf.constant([1.0, 2.0, 3.0])),
        f(tf.constant([1.0, 2.0])),
        f.experimental_get_tracing_count(),
    )


@program
def dynamic_shape(tf, np):
    @tf.function
    def f(x):
        return tf.boolean_mask(x, x > 1)

    return np.asarray(f(tf.constant([1.0, 2.0, 3.0]))).tolist(), np.asarray(
        f(tf.constant([1.0, 0.0, 3.0]))
    ).tolist()


@program
def fill_n(tf, np):
    @tf.function
    def f(n):
        return tf.reduce_sum(tf.ones([n]))

    return f(tf.constant(3)), f(tf.constant(5))


@program
def lambda_fn(tf, np):
    f = tf.function(lambda x: x if x > 0 else -x)
    return f(tf.constant(-3))


@program
def closure_list(tf, np):
    w = [tf.Variable(1.0), tf.Variable(2.0)]

    @tf.function
    def f(i):
        t = tf.constant(0.0)
        for v in w:
            v.assign_add(1.0)
            if v > 2.5:
                t += v
        return t

    return f(tf.constant(0)), f(tf.constant(0))


def write_results(programs, path):
    """Writes what TensorFlow gives for each program."""
    import numpy as np
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, devices)
    results = {name: plain(fn(tf, np)) for name, fn in programs.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(x)}" for name, x in results.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write_results(PROGRAMS, RESULTS)
