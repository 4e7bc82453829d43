"""Tapes: what they watch, gradients of higher order, custom gradients."""

# The programs are data: dense, each read as a whole.
# ruff: noqa

from tests.tf.recorded.error_kinds import error_of as _err


def persistent(tf, np):
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = x * x
        z = y * y
    r = [t.gradient(z, x), t.gradient(y, x), t.gradient(z, y), t.gradient([y, z], x)]
    del t
    return r


def watch_int(tf, np):
    with tf.GradientTape() as t:
        x = tf.constant(1)
        t.watch(x)
        y = x * x
    return [t.gradient(y, x)]


def no_watch_of_variables(tf, np):
    v, w = (tf.Variable(1.0), tf.Variable(2.0))
    with tf.GradientTape(watch_accessed_variables=False) as t:
        t.watch(v)
        y = v * w
    return [t.gradient(y, [v, w]), [x is v for x in t.watched_variables()]]


def not_trainable(tf, np):
    v, w = (tf.Variable(1.0), tf.Variable(2.0, trainable=False))
    with tf.GradientTape() as t:
        y = v * w
    return [t.gradient(y, {"v": v, "w": w}), len(t.watched_variables())]


def unconnected(tf, np):
    x, y = (tf.Variable([1.0, 2.0]), tf.Variable(3.0))
    out = []
    for u in (
        tf.UnconnectedGradients.NONE,
        tf.UnconnectedGradients.ZERO,
        "zero",
        "none",
    ):
        with tf.GradientTape() as t:
            z = y * y
        out.append(t.gradient(z, [x, y], unconnected_gradients=u))
    with tf.GradientTape() as t:
        z = y * y
    return [out, _err(t.gradient, z, x, unconnected_gradients="nonsense")]


def stop_recording(tf, np):
    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = x * x
        with t.stop_recording():
            z = x * x * x
        w = y + z
    return [t.gradient(w, x)]


def reset(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t:
        y = x * x
        t.reset()
        z = x * 3.0
    return [t.gradient(z, x)]


def reset_drops(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t:
        y = x * x
        t.reset()
        z = y * 3.0
    return [t.gradient(z, x)]


def gradient_inside_tape(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as t:
        y = x * x
        g = t.gradient(y, x)
    return [g]


def nested(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t3:
        with tf.GradientTape() as t2:
            with tf.GradientTape() as t1:
                y = x**4
            a = t1.gradient(y, x)
        b = t2.gradient(a, x)
    return [a, b, t3.gradient(b, x)]


def jacobian(tf, np):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = tf.stack([x[0] * x[1], x[0] ** 2, x[1]])
    return [
        t.jacobian(y, x),
        t.jacobian(y, [x]),
        t.jacobian(y, x, experimental_use_pfor=False),
    ]


def jacobian_of_variable_unconnected(tf, np):
    x, v = (tf.Variable([1.0, 2.0]), tf.Variable(1.0))
    with tf.GradientTape(persistent=True) as t:
        y = x * x
    return [
        t.jacobian(y, v),
        t.jacobian(y, [x, v], unconnected_gradients=tf.UnconnectedGradients.ZERO),
    ]


def hessian(tf, np):
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as t2:
        with tf.GradientTape() as t1:
            y = tf.reduce_sum(x**3) + x[0] * x[1]
        g = t1.gradient(y, x)
    return [g, t2.jacobian(g, x)]


def batch_jacobian_errors(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = x * x
        z = tf.reduce_sum(y, 1)
        w = y[:1]
    return [
        t.batch_jacobian(y, x),
        _err(t.batch_jacobian, w, x),
        _err(t.batch_jacobian, y, [x]),
    ]


def gradient_of_nest(tf, np):
    w = {"a": tf.Variable(1.0), "b": [tf.Variable(2.0), (tf.Variable(3.0),)]}
    with tf.GradientTape() as t:
        y = w["a"] * w["b"][0] * w["b"][1][0]
    return t.gradient(y, w)


def gradient_of_dict_target(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t:
        y = {"a": x * x, "b": x * 3.0}
    return [t.gradient(y, x)]


def gradient_of_source_twice(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t:
        y = x * x
    return t.gradient(y, [x, x])


def gradient_of_itself(tf, np):
    x = tf.Variable(2.0)
    c = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch(c)
        y = x * 1.0
    return [t.gradient(c, c), t.gradient(y, y), t.gradient(x, x)]


def gather_gives_slices(tf, np):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.GradientTape() as t:
        y = tf.reduce_sum(tf.gather(v, [0, 2, 0]))
    g = t.gradient(y, v)
    return [tf.convert_to_tensor(g)]


def in_function(tf, np):
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x):
        with tf.GradientTape() as t:
            l = tf.reduce_sum(v * x)
        g = t.gradient(l, v)
        v.assign_sub(0.1 * g)
        return (l, g)

    return [step(tf.constant([1.0, 1.0])), step(tf.constant([1.0, 1.0])), v.numpy()]


def through_function(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        return x * x * v

    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x)
    return t.gradient(y, [x, v])


def through_loop(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(n):
        y = tf.constant(1.0)
        for _ in tf.range(n):
            y *= v
        return y

    with tf.GradientTape() as t:
        y = f(tf.constant(4))
    return [y, t.gradient(y, v)]


def through_cond(tf, np):

    @tf.function
    def f(x):
        if x > 0:
            return x * x
        return -x

    out = []
    for k in (2.0, -2.0):
        x = tf.constant(k)
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x)
        out.append(t.gradient(y, x))
    return out


def custom(tf, np):

    @tf.custom_gradient
    def f(x):
        e = tf.exp(x)

        def grad(up):
            return up * (1 - 1 / (1 + e))

        return (tf.math.log(1 + e), grad)

    x = tf.constant(100.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x)
    return [t.gradient(y, x)]


def custom_two(tf, np):

    @tf.custom_gradient
    def f(x, y):

        def grad(a, b):
            return (a * 2.0, b * 3.0)

        return ((x * y, x + y), grad)

    x, y = (tf.constant(1.0), tf.constant(2.0))
    with tf.GradientTape(persistent=True) as t:
        t.watch([x, y])
        a, b = f(x, y)
        c = a + b
    return [t.gradient(c, [x, y]), t.gradient(a, [x, y])]


def custom_none(tf, np):

    @tf.custom_gradient
    def f(x, n):
        return (x * n, lambda up: (up * n, None))

    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x, tf.constant(3.0))
    return [t.gradient(y, x)]


def custom_with_keywords(tf, np):

    @tf.custom_gradient
    def f(x, scale=2.0):
        return (x, lambda up: up * scale)

    @tf.custom_gradient
    def clip(x, low, high):

        def grad(up):
            return (tf.clip_by_value(up, low, high), None, None)

        return (tf.identity(x), grad)

    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = f(x)
        z = clip(x, -0.5, 0.5) * 3.0
    return [t.gradient(y, x), t.gradient(z, x), _err(lambda: f(x, scale=3.0))]


def custom_second_order(tf, np):

    @tf.custom_gradient
    def cube(x):
        return (x**3, lambda up: up * 3.0 * x**2)

    x = tf.Variable(2.0)
    with tf.GradientTape() as t2:
        with tf.GradientTape() as t1:
            y = cube(x)
        g = t1.gradient(y, x)
    return [g, t2.gradient(g, x)]


def custom_method(tf, np):

    class L(tf.Module):
        @tf.custom_gradient
        def f(self, x):
            return (x, lambda up: (None, up * 7.0) if False else up * 7.0)

    @tf.function
    def g(x):

        @tf.custom_gradient
        def h(z):
            return (z * 1.0, lambda up: up * 5.0)

        with tf.GradientTape() as t:
            t.watch(x)
            y = h(x)
        return t.gradient(y, x)

    return [g(tf.constant(1.0))]


def recompute(tf, np):
    v = tf.Variable(2.0)
    f = tf.recompute_grad(lambda x: x * x * v)
    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x)
    return t.gradient(y, [x, v])


def clipping(tf, np):
    g = [tf.constant([3.0, 4.0]), None, tf.constant([0.0])]
    c, n = tf.clip_by_global_norm(g, 1.0)
    return [
        c,
        n,
        tf.linalg.global_norm(g),
        tf.clip_by_norm(tf.constant([3.0, 4.0]), 1.0),
    ]


def assigned_inside(tf, np):
    v = tf.Variable(2.0)
    with tf.GradientTape() as t:
        y = v * v
        v.assign(5.0)
        z = y + v
    return [z, t.gradient(z, v), v.numpy()]


def non_float_source(tf, np):
    x = tf.Variable(2)
    with tf.GradientTape() as t:
        y = x * x
    return [t.gradient(y, x)]


def nested_functions_second(tf, np):

    @tf.function
    def f(x):
        with tf.GradientTape() as t2:
            t2.watch(x)
            with tf.GradientTape() as t1:
                t1.watch(x)
                y = x**3
            g = t1.gradient(y, x)
        return (g, t2.gradient(g, x))

    return f(tf.constant(2.0))


def forward(tf, np):
    x = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
        y = x * x
    return [
        acc.jvp(y),
        acc.jvp(tf.constant(1.0)),
        acc.jvp(tf.constant(1.0), unconnected_gradients=tf.UnconnectedGradients.ZERO),
    ]


def complex_gradient(tf, np):
    z = tf.constant(1.0 + 2j)
    with tf.GradientTape() as t:
        t.watch(z)
        y = tf.abs(z) ** 2
    return [str(t.gradient(y, z).numpy())]


def no_gradient_through_numpy(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t:
        y = tf.constant(x.numpy()) * 2
    return [t.gradient(y, x)]


def py_function_gradient(tf, np):
    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = tf.py_function(lambda a: a * a, [x], tf.float32)
    return [t.gradient(y, x)]
