"""Saved models: functions, signatures, variables."""

# The programs are data: dense, each read as a whole.
# ruff: noqa

import tempfile

from tests.tf.recorded.error_kinds import error_of as _err


def _dir():
    return tempfile.mkdtemp() + "/m"


def _module(tf):

    class M(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable(2.0)
            self.n = tf.Variable(0, trainable=False)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def times(self, x):
            self.n.assign_add(1)
            return {"y": x * self.v}

        @tf.function
        def power(self, x, k=2, flag=False):
            return x**k if not flag else x

    return M()


def save_and_load(tf, np):
    d, m = (_dir(), _module(tf))
    m.power(tf.constant(3.0))
    m.power(tf.constant(3.0), k=3)
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    r = [
        l.times(tf.constant([1.0, 2.0])),
        l.n.numpy(),
        l.v.numpy(),
        l.power(tf.constant(2.0)),
        l.power(tf.constant(2.0), k=3),
        l.power(tf.constant(2.0), 3),
    ]
    r += [
        _err(l.power, tf.constant(2.0), k=4)[0],
        _err(l.power, tf.constant([2.0]))[0],
        _err(l.times, tf.constant([1]))[0],
    ]
    l.v.assign(5.0)
    return [*r, l.times(tf.constant([1.0])), len(l.signatures)]


def default_signature_of_one_function(tf, np):
    d = _dir()
    m = tf.Module()
    m.f = tf.function(
        lambda x: x + 1.0, input_signature=[tf.TensorSpec([None], tf.float32)]
    )
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    return [sorted(l.signatures), l.f([1.0])]


def signatures(tf, np):
    d, m = (_dir(), _module(tf))
    tf.saved_model.save(
        m,
        d,
        signatures={
            "serving_default": m.times,
            "two": m.power.get_concrete_function(
                tf.TensorSpec([], tf.float32, name="base")
            ),
        },
    )
    l = tf.saved_model.load(d)
    s = l.signatures["serving_default"]
    return [
        sorted(l.signatures),
        s(x=tf.constant([1.0])),
        s(tf.constant([2.0])),
        l.signatures["two"](base=tf.constant(3.0)),
        repr(s.structured_input_signature),
        repr(s.structured_outputs),
        _err(s, y=tf.constant([1.0])),
        _err(s, [1.0], [2.0])[0],
    ]


def _sig(tf, m, f):
    d = _dir()
    tf.saved_model.save(m, d, signatures=f)
    return tf.saved_model.load(d).signatures["serving_default"](tf.constant(1.0))


def not_trackable(tf, np):
    return [
        _err(tf.saved_model.save, 5, _dir())[0],
        _err(tf.saved_model.save, {}, _dir())[0],
        _err(tf.saved_model.save, tf.constant(1), _dir())[0],
    ]


def no_function(tf, np):
    d = _dir()
    m = tf.Module()
    m.v = tf.Variable([1.0, 2.0])
    m.l = [tf.Variable(3.0)]
    m.d = {"k": tf.Variable(4.0)}
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    return [l.v.numpy(), l.l[0].numpy(), l.d["k"].numpy(), l.v.trainable]


def plain_checkpoint_object(tf, np):
    d = _dir()
    root = tf.train.Checkpoint(v1=tf.Variable(3.0), v2=tf.Variable(2.0))
    root.f = tf.function(lambda x: root.v1 * root.v2 * x)
    root.f(tf.constant(1.0))
    tf.saved_model.save(root, d)
    l = tf.saved_model.load(d)
    return [l.f(tf.constant(2.0)), l.v1.numpy()]


def untraced_function(tf, np):
    d = _dir()
    m = tf.Module()
    m.f = tf.function(lambda x: x)
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    return [_err(l.f, tf.constant(1.0))[0]]


def call_method(tf, np):

    class M(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([[1.0], [2.0]])

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        def __call__(self, x):
            return x @ self.w

    d = _dir()
    tf.saved_model.save(M(), d)
    l = tf.saved_model.load(d)
    with tf.GradientTape() as t:
        y = tf.reduce_sum(l(tf.ones([3, 2])))
    return [l(tf.ones([1, 2])), t.gradient(y, l.w), callable(l)]


def nested_modules(tf, np):

    class Inner(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable(1.0)

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def f(self, x):
            return x + self.v

    m = tf.Module()
    m.inner = Inner()
    m.items = [Inner(), Inner()]
    d = _dir()
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    l.items[0].v.assign(10.0)
    return [l.inner.f(1.0), l.items[0].f(1.0), l.items[1].f(1.0)]


def nested_arguments(tf, np):
    m = tf.Module()

    @tf.function
    def f(d, l):
        return {"s": d["a"] + l[0], "t": (d["b"], l[1])}

    m.f = f
    args = (
        {"a": tf.constant(1.0), "b": tf.constant(2.0)},
        [tf.constant(3.0), tf.constant(4.0)],
    )
    f(*args)
    d = _dir()
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    return [l.f(*args), _err(l.f, args[0])[0]]


def saved_twice(tf, np):
    d, e, m = (_dir(), _dir(), _module(tf))
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    l.v.assign(7.0)
    tf.saved_model.save(l, e)
    k = tf.saved_model.load(e)
    return [k.times(tf.constant([1.0])), k.v.numpy()]


def shared_variable(tf, np):
    m = tf.Module()
    m.a = tf.Variable(1.0)
    m.b = m.a
    d = _dir()
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    return [l.a is l.b]


def variables_of_loaded(tf, np):
    d, m = (_dir(), _module(tf))
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    s = l.signatures
    return [
        sorted((n for n in ("v", "n", "times") if hasattr(l, n))),
        _err(lambda: l.nothing)[0],
        l.times.get_concrete_function(tf.TensorSpec([None], tf.float32))(
            tf.constant([3.0])
        ),
        l.v.trainable,
        l.n.trainable,
        l.v.name,
    ]


def checkpoint_of_loaded(tf, np):
    d, m = (_dir(), _module(tf))
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    l.v.assign(9.0)
    p = tf.train.Checkpoint(model=l).save(tempfile.mkdtemp() + "/c")
    k = tf.saved_model.load(d)
    tf.train.Checkpoint(model=k).restore(p)
    return [k.v.numpy()]


def training_loaded(tf, np):
    d, m = (_dir(), _module(tf))
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)
    o = tf.keras.optimizers.SGD(0.1)
    for _ in range(2):
        with tf.GradientTape() as t:
            y = tf.reduce_sum(l.times(tf.constant([1.0]))["y"] ** 2)
        o.apply_gradients([(t.gradient(y, l.v), l.v)])
    return [l.v.numpy()]


def in_function_of_loaded(tf, np):
    d, m = (_dir(), _module(tf))
    tf.saved_model.save(m, d)
    l = tf.saved_model.load(d)

    @tf.function
    def f(x):
        return l.times(x)["y"] + 1

    return [f(tf.constant([1.0])), l.n.numpy()]


def function_with_bound_tensor(tf, np):
    m = tf.Module()
    c = tf.constant([1.0, 2.0])
    m.f = tf.function(lambda x: x + c, input_signature=[tf.TensorSpec([2], tf.float32)])
    d = _dir()
    tf.saved_model.save(m, d)
    return [tf.saved_model.load(d).f([1.0, 1.0])]
