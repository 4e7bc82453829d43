"""Functions: traces, signatures, nests, variables, concrete functions."""

# The programs are data: dense, each read as a whole.
# ruff: noqa

import collections
import typing

from tests.tf.recorded.error_kinds import error_of as _err


def retraces(tf, np):
    n = []

    @tf.function
    def f(x):
        n.append(1)
        return x + 1

    f(tf.constant(1))
    f(tf.constant(2))
    f(tf.constant(1.0))
    f(tf.constant([1.0]))
    f(1)
    f(2)
    f(1)
    f(np.float32(1))
    f(np.ones(2, np.float32))
    f(tf.Variable(1.0))
    return (len(n), f.experimental_get_tracing_count())


def retraces_of_objects(tf, np):
    n = []

    @tf.function
    def f(x, flag=True, mode="a"):
        n.append((flag, mode))
        return x * 2.0 if flag else x

    f(tf.constant(1.0))
    f(tf.constant(1.0), True)
    f(tf.constant(1.0), flag=True)
    f(tf.constant(1.0), False)
    f(tf.constant(1.0), mode="b")
    f(tf.constant(1.0), mode="b")
    return n


def signature_of_nests(tf, np):

    @tf.function(
        input_signature=[
            {
                "a": tf.TensorSpec([None], tf.float32),
                "b": (tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32)),
            }
        ]
    )
    def f(d):
        return {"sum": tf.reduce_sum(d["a"]), "n": d["b"][0] + d["b"][1]}

    return [
        f({"a": [1.0, 2.0], "b": (1, 2)}),
        _err(f, {"a": [1.0]}),
        _err(f, {"a": [1.0], "c": (1, 2)}),
    ]


def nested_results(tf, np):
    Point = collections.namedtuple("Point", ["x", "y"])

    @tf.function
    def f(p, d):
        return (Point(p.y, p.x), {"k": [d["k"] + 1, None], "t": (d["t"],)}, None)

    p, d, none = f(
        Point(tf.constant(1), tf.constant(2)),
        {"k": tf.constant(3), "t": tf.constant([1.0])},
    )
    return [type(p).__name__, p.x, p.y, d, none]


def variable_created_once(tf, np):

    class M(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(tf.ones([2]))
            self.v.assign_add(x)
            return self.v * 2.0

    m = M()
    return [
        m(tf.constant([1.0, 2.0])),
        m(tf.constant([1.0, 2.0])),
        m.v.numpy(),
        len(m.variables),
    ]


def variable_of_argument(tf, np):

    @tf.function
    def f(v, x):
        v.assign_add(x)
        return v.read_value()

    a, b = (tf.Variable(1.0), tf.Variable(10.0))
    return [f(a, tf.constant(1.0)), f(b, tf.constant(1.0)), a.numpy(), b.numpy()]


def concrete_of_no_arguments(tf, np):

    @tf.function
    def f(x):
        return x

    @tf.function(input_signature=[])
    def g():
        return tf.constant(1.0)

    return [_err(f.get_concrete_function), g.get_concrete_function()()]


def keyword_arguments(tf, np):

    @tf.function
    def f(a, *args, b=1.0, **kwargs):
        return a + sum(args) + b + kwargs.get("c", 0.0)

    one = tf.constant(1.0)
    return [
        f(one),
        f(one, one, one),
        f(one, b=one),
        f(a=one, b=2.0, c=one),
        f(one, one, c=3.0),
    ]


def methods_of_two_objects(tf, np):

    class C:
        def __init__(self, k):
            self.k = k

        @tf.function
        def f(self, x):
            return x * self.k

    a, b = (C(2.0), C(3.0))
    r = [a.f(tf.constant(1.0)), b.f(tf.constant(1.0))]
    a.k = 5.0
    return [*r, a.f(tf.constant(1.0)), a.f(tf.constant([1.0]))]


def function_of_partial_and_lambda(tf, np):
    import functools

    f = tf.function(functools.partial(lambda x, y: x - y, y=tf.constant(1.0)))
    g = tf.function(lambda x, n=3: x**n)
    return [f(tf.constant(3.0)), g(tf.constant(2.0)), g(tf.constant(2.0), n=2)]


def function_of_callable_object(tf, np):

    class C:
        def __call__(self, x):
            return x + 1

    return [tf.function(C())(tf.constant(1))]


def runs_functions_eagerly(tf, np):
    seen = []

    @tf.function
    def f(x):
        seen.append(hasattr(x, "numpy") and tf.executing_eagerly())
        return x

    tf.config.run_functions_eagerly(True)
    try:
        a = tf.config.functions_run_eagerly()
        f(tf.constant(1))
        f(tf.constant(1))
    finally:
        tf.config.run_functions_eagerly(False)
    f(tf.constant(1))
    f(tf.constant(1))
    return [a, seen, tf.config.functions_run_eagerly()]


def init_scope_inside(tf, np):

    @tf.function
    def f(x):
        with tf.init_scope():
            e = tf.executing_eagerly()
        return (x + (1 if e else 0), tf.executing_eagerly())

    return [f(tf.constant(1))[0]]


def python_side_effects(tf, np):
    log = []

    @tf.function
    def f(x):
        log.append("t")
        return x

    for i in range(3):
        f(tf.constant(i))
    for i in range(3):
        f(i)
    return log


def loops_and_conditions(tf, np):

    @tf.function
    def collatz(n):
        steps = tf.constant(0)
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    @tf.function
    def total(xs):
        s = tf.constant(0.0)
        for x in xs:
            if x < 0.0:
                continue
            if x > 100.0:
                break
            s += x
        return s

    return [
        collatz(tf.constant(6)),
        collatz(tf.constant(27)),
        total(tf.constant([1.0, -1.0, 2.0])),
        total(tf.constant([1.0, 200.0, 2.0])),
    ]


def undefined_in_a_branch(tf, np):

    @tf.function
    def f(x):
        if x > 0:
            y = x
        return y

    @tf.function
    def g(x):
        if x > 0:
            y = tf.constant(1)
        else:
            y = tf.constant(1.0)
        return y

    @tf.function
    def h(x):
        if x > 0:
            return tf.constant([1, 2])
        return tf.constant([1.0])

    return [_err(f, tf.constant(1)), _err(g, tf.constant(1)), _err(h, tf.constant(1))]


def tensor_as_bool_without_autograph(tf, np):

    @tf.function(autograph=False)
    def f(x):
        if x > 0:
            return x
        return -x

    try:
        f(tf.constant(1))
    except Exception as e:
        return isinstance(e, TypeError)


def strings_inside(tf, np):

    @tf.function
    def f(s):
        return (tf.strings.join([s, "b"]), tf.strings.length(s))

    return [f(tf.constant("a")), f("xyz"), f(tf.constant(["a", "bc"]))]


def ragged_and_sparse(tf, np):

    @tf.function
    def f(r):
        return (tf.reduce_sum(r, axis=1), r.to_tensor())

    @tf.function
    def g(s):
        return tf.sparse.to_dense(s) * 2

    return [
        f(tf.ragged.constant([[1, 2], [3]])),
        g(tf.sparse.from_dense([[0, 1], [2, 0]])),
    ]


def ensure_and_set_shape(tf, np):

    @tf.function
    def f(x):
        return tf.ensure_shape(x, [None, 2])

    return [f(tf.ones([1, 2])), _err(f, tf.ones([1, 3]))]


def raises_inside(tf, np):

    @tf.function
    def f(x):
        tf.debugging.assert_positive(x)
        return x

    @tf.function
    def g(x):
        raise ValueError("no")

    try:
        f(tf.constant(-1))
        r = "no error"
    except tf.errors.InvalidArgumentError:
        r = "invalid"
    return [f(tf.constant(1)), r, _err(g, 1)]


def functions_in_functions(tf, np):

    @tf.function
    def inner(x):
        return x * 2

    @tf.function
    def outer(x):
        return inner(x) + inner(inner(x))

    return [outer(tf.constant(1)), inner.experimental_get_tracing_count()]


def reduce_retracing(tf, np):
    n = []

    @tf.function(reduce_retracing=True)
    def f(x):
        n.append(1)
        return tf.reduce_sum(x)

    return [f(tf.ones([1])), f(tf.ones([2])), f(tf.ones([3])), f(tf.ones([4]))]


def function_with_list_argument(tf, np):

    @tf.function
    def f(xs):
        return (tf.add_n(xs), len(xs))

    return [
        f([tf.constant(1.0), tf.constant(2.0)]),
        f((tf.constant(1.0),)),
        f([1.0, 2.0, 3.0]),
    ]


def custom_type_arguments(tf, np):

    class Config:
        def __init__(self, k):
            self.k = k

    n = []

    @tf.function
    def f(x, c):
        n.append(1)
        return x * c.k

    a = Config(2)
    return [
        f(tf.constant(1), a),
        f(tf.constant(2), a),
        f(tf.constant(1), Config(3)),
        len(n),
    ]


def numpy_function_inside(tf, np):

    @tf.function
    def f(x):
        return tf.numpy_function(lambda a: a * 2, [x], tf.float32)

    @tf.function
    def g(x):
        y = tf.py_function(lambda a: a.numpy() * 3, [x], tf.float32)
        y.set_shape([2])
        return y + 1

    return [f(tf.constant([1.0, 2.0])), g(tf.constant([1.0, 2.0]))]


def experimental_options(tf, np):
    f = tf.function(
        lambda x: x,
        jit_compile=True,
        reduce_retracing=True,
        experimental_implements="my",
        experimental_autograph_options=None,
        experimental_attributes=None,
    )
    return [f(tf.constant(1)), _err(tf.function, lambda x: x, unknown=True)]


def typed_none(tf, np):

    @tf.function
    def f(x, mask=None):
        if mask is None:
            return x
        return x * mask

    o = tf.ones([2])
    return [
        f(o),
        f(o, None),
        f(o, tf.constant([1.0, 0.0])),
        f(o, mask=tf.constant([0.0, 1.0])),
    ]


def not_converted(tf, np):

    @tf.autograph.experimental.do_not_convert
    def helper(x):
        return x + 1

    @tf.function
    def f(x):
        return helper(x)

    return [f(tf.constant(1))]


def get_tracing_of_bound(tf, np):

    class M(tf.Module):
        @tf.function
        def f(self, x):
            return x

    m = M()
    m.f(tf.constant(1))
    m.f(tf.constant(1.0))
    return [m.f.experimental_get_tracing_count()]


def capture_by_value_changes(tf, np):
    k = 2

    @tf.function
    def f(x):
        return x * k

    a = f(tf.constant(1))
    k = 3
    return [a, f(tf.constant(1)), f(tf.constant([1]))]


def tensor_array_in_function(tf, np):

    @tf.function
    def f(n):
        ta = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
        for i in tf.range(n):
            ta = ta.write(i, i * i)
        return ta.stack()

    return [f(tf.constant(4)), f(tf.constant(1))]


def type_annotated(tf, np):

    @tf.function
    def f(x: tf.Tensor, y: typing.Optional[tf.Tensor] = None) -> tf.Tensor:
        return x if y is None else x + y

    return [f(1), f(tf.constant(1), 2)]
