"""Loops and branches on tensors, in programs for TensorFlow and for `mirrax.tf`.

As in `python_flow.py`: `autograph_programs.json` has what TensorFlow 2.21 gives,
recorded in an environment of its own with

    python -m tests.tf.recorded.autograph_programs
"""

# The programs are data: dense, each read as a whole, their lambdas called at once.
# ruff: noqa: B007, PLR1714, PLW2901, RET503, SIM108

import contextlib
import io
import pathlib
import sys

from tests.tf.recorded.python_flow import (
    local,
    mirrored,
    per_replica,
    read,
    write_results,
)

RESULTS = pathlib.Path(__file__).with_name("autograph_programs.json")
PROGRAMS = {}


def program(fn):
    PROGRAMS[fn.__name__] = fn
    return fn


def error_of(call, *args):
    """Returns the class of what a call raises, and the words in quotes."""
    try:
        call(*args)
    except (TypeError, ValueError, NotImplementedError) as error:
        text = str(error).replace("\n", " ")
        kind = TypeError if isinstance(error, TypeError) else type(error)
        return [kind.__name__, "'y'" in text]
    return "no error"


@program
def nested_loops(tf, np):
    @tf.function
    def f(n):
        total = 0
        for i in tf.range(n):
            for j in tf.range(i):
                total += i * j
        return total

    return f(tf.constant(4)), f(tf.constant(6)), f.experimental_get_tracing_count()


@program
def break_in_while_in_if(tf, np):
    @tf.function
    def f(x):
        if x > 0:
            while tf.constant(True):
                x = x * 2
                if x > 50:
                    break
        else:
            x = -x
        return x

    return f(tf.constant(3)), f(tf.constant(-3)), f(tf.constant(60))


@program
def break_in_for(tf, np):
    @tf.function
    def f(x, limit):
        total = 0.0
        for row in x:
            if total + row > limit:
                break
            total += row
        return total

    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    return [f(x, tf.constant(limit)) for limit in (0.5, 3.5, 100.0)]


@program
def continue_in_for(tf, np):
    @tf.function
    def f(n):
        total = 0
        for i in tf.range(n):
            if i % 2 == 0:
                continue
            if i > 6:
                break
            total += i
        return total

    return f(tf.constant(4)), f(tf.constant(20))


@program
def continue_in_while(tf, np):
    @tf.function
    def f(n):
        i, total = 0, 0
        while i < n:
            i += 1
            if i == 3 or i == 5:
                continue
            total += i
        return total, i

    return f(tf.constant(2)), f(tf.constant(7))


@program
def range_with_steps(tf, np):
    @tf.function
    def f(a, b, c):
        values = tf.zeros([], tf.int32)
        for i in tf.range(a, b, c):
            values = values * 10 + i
        return values

    return (
        f(tf.constant(1), tf.constant(9), tf.constant(3)),
        f(tf.constant(5), tf.constant(0), tf.constant(-2)),
        f(tf.constant(5), tf.constant(5), tf.constant(1)),
        f(1, 8, 2),
    )


@program
def float_range(tf, np):
    @tf.function
    def f(n):
        total = 0.0
        for x in tf.range(0.0, n, 0.5):
            total += x
        return total

    return f(tf.constant(2.0)), f(tf.constant(2.2))


@program
def collatz(tf, np):
    @tf.function
    def f(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    return f(tf.constant(6)), f(tf.constant(7)), f.experimental_get_tracing_count()


@program
def while_on_a_variable(tf, np):
    v = tf.Variable(1)

    @tf.function
    def f(limit):
        count = 0
        while v < limit:
            v.assign(v * 3)
            count += 1
        return count

    return f(tf.constant(100)), read(v), f(tf.constant(100)), read(v)


@program
def if_on_a_boolean_variable(tf, np):
    flag = tf.Variable(True)

    @tf.function
    def f(x):
        if flag:
            flag.assign(False)
            return x
        return -x

    return f(tf.constant(1)), f(tf.constant(1)), bool(read(flag))


@program
def variables_in_nested_branches(tf, np):
    v, w = tf.Variable(0.0), tf.Variable(10.0)

    @tf.function
    def f(x):
        if x > 0:
            v.assign_add(x)
            if x > 2:
                w.assign(v * 2.0)
        else:
            w.assign_sub(1.0)
        return v + w

    return [f(tf.constant(x)) for x in (1.0, 3.0, -1.0)], read(v), read(w)


@program
def variables_in_a_loop(tf, np):
    v = tf.Variable([0.0, 0.0])

    @tf.function
    def f(rows):
        for row in rows:
            v.assign_add(row)
            if tf.reduce_sum(v) > 5.0:
                v.assign(v / 2.0)
        return v.read_value()

    return f(tf.constant([[1.0, 2.0], [3.0, 4.0]])), read(v)


@program
def sync_on_read_in_a_loop(tf, np):
    with mirrored(tf).scope():
        v = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
            trainable=False,
        )

    @tf.function
    def step(x):
        def rep(x):
            while v < 5.0:
                v.assign_add(x)
            return v.read_value()

        return mirrored(tf).run(rep, (x,))

    pv = per_replica(tf, lambda i: tf.constant(1.0 + i))
    return local(tf, step(pv)), read(v)


@program
def steps_in_a_loop(tf, np):
    with mirrored(tf).scope():
        v = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)

    def rep(x):
        v.assign_add(x)
        return x * v

    @tf.function
    def train(x, n):
        total = 0.0
        for _ in tf.range(n):
            parts = mirrored(tf).run(rep, (x,))
            total += mirrored(tf).reduce("SUM", parts, axis=None)
        return total

    pv = per_replica(tf, lambda i: tf.constant(1.0 + i))
    return train(pv, tf.constant(3)), read(v)


@program
def uneven_last_batch(tf, np):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(7, dtype=np.float32))
    dist = mirrored(tf).experimental_distribute_dataset(dataset.batch(4))

    def rep(x):
        if tf.reduce_sum(x) > 4.0:
            total = tf.reduce_sum(x) * 10.0
        else:
            total = tf.reduce_sum(x)
        return total

    @tf.function
    def step(x):
        return mirrored(tf).run(rep, (x,))

    return [local(tf, step(x)) for x in dist]


@program
def dataset_in_a_function(tf, np):
    dataset = tf.data.Dataset.range(5)
    v = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def f():
        last = tf.constant(0, tf.int64)
        for x in dataset:
            if x > 3:
                break
            if x % 2 == 1:
                v.assign_add(x)
            last = x
        return last

    return f(), read(v)


@program
def distributed_dataset_in_a_function(tf, np):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32))
    dist = mirrored(tf).experimental_distribute_dataset(dataset.batch(4))
    with mirrored(tf).scope():
        v = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    def rep(x):
        y = 0.0
        if tf.reduce_sum(x) > 5.0:
            y = tf.reduce_sum(x)
        v.assign_add(y)

    @tf.function
    def epoch():
        for x in dist:
            mirrored(tf).run(rep, (x,))

    epoch()
    return read(v)


@program
def tape_inside_a_loop(tf, np):
    v = tf.Variable(3.0)

    @tf.function
    def f(n):
        for _ in tf.range(n):
            with tf.GradientTape() as tape:
                loss = v * v
            v.assign_sub(0.1 * tape.gradient(loss, v))
        return v.read_value()

    return [round(float(f(tf.constant(n))), 4) for n in (1, 3)]


@program
def tape_around_a_static_loop(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            y = x
            for i in tf.range(3):
                y = y * v
        return tape.gradient(y, v)

    return f(tf.constant(1.0)), f(tf.constant(2.0))


@program
def tape_around_a_dynamic_loop(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(n):
        with tf.GradientTape() as tape:
            y = 1.0
            for i in tf.range(n):
                y = y * v
        return tape.gradient(y, v)

    return f(tf.constant(3)), f(tf.constant(4))


@program
def tape_around_a_bounded_while(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(n):
        with tf.GradientTape() as tape:
            y, i = 1.0, 0
            while i < n:
                tf.autograph.experimental.set_loop_options(maximum_iterations=5)
                y = y * v
                i += 1
        return tape.gradient(y, v), i

    return f(tf.constant(3)), f(tf.constant(9))


@program
def tape_over_rows_with_a_break(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            y = 0.0
            for row in x:
                if y > 5.0:
                    break
                y += row * v * v
        return y, tape.gradient(y, v)

    return f(tf.constant([1.0, 2.0, 3.0])), f(tf.constant([0.1, 0.2, 0.3]))


@program
def gradient_outside_of_a_loop(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(n):
        y = v * 1.0
        while y < n:
            y = y * v
        return y

    with tf.GradientTape() as tape:
        y = f(tf.constant(10.0))
    return y, tape.gradient(y, v)


@program
def dict_as_state(tf, np):
    @tf.function
    def f(n):
        s = {"a": 0, "b": (1.0, 2)}
        for i in tf.range(n):
            s = {"a": s["a"] + i, "b": (s["b"][0] * 2.0, s["b"][1] + 1)}
        return s["a"], s["b"][0], s["b"][1]

    return f(tf.constant(3))


@program
def dict_items_as_state(tf, np):
    @tf.function
    def f(n):
        s = {"a": 0, "b": 1.0}
        for i in tf.range(n):
            s["a"] += i
            if i > 1:
                s["b"] *= 3.0
        return s["a"], s["b"]

    return f(tf.constant(4))


@program
def attributes_as_state(tf, np):
    class Counter:
        total = 0
        _private = 5

        @tf.function
        def count(self, n):
            self.total = 0
            for i in tf.range(n):
                self.total += i + self._private
            return self.total

    counter = Counter()
    return counter.count(tf.constant(4))


@program
def tuples_as_state(tf, np):
    @tf.function
    def f(n):
        a, (b, c) = 0, (1, [2.0])
        while a < n:
            a, (b, c) = a + b, (b + 1, [c[0] * 2.0])
        return a, b, c[0]

    return f(tf.constant(10))


@program
def none_before_a_loop(tf, np):
    @tf.function
    def f(n):
        last = None
        for i in tf.range(n):
            last = i * 2
        return last

    return f(tf.constant(3))


@program
def undefined_before_a_loop(tf, np):
    @tf.function
    def f(n):
        i = 0
        while i < n:
            if i > 1:
                y = i
            else:
                y = -i
            i += 1
        return y

    return f(tf.constant(2)), f(tf.constant(4))


@program
def undefined_in_one_branch(tf, np):
    @tf.function
    def f(x):
        if x > 0:
            y = x
        return y

    return error_of(f, tf.constant(1))


@program
def none_in_one_branch(tf, np):
    @tf.function
    def f(x):
        y = None
        if x > 0:
            y = x
        return y

    return error_of(f, tf.constant(1))


@program
def return_in_one_branch(tf, np):
    @tf.function
    def f(x):
        if x > 0:
            return x

    return error_of(f, tf.constant(1))


@program
def return_in_a_loop(tf, np):
    @tf.function
    def f(n):
        for i in tf.range(n):
            if i > 2:
                return i
        return -1

    return error_of(f, tf.constant(1))


@program
def dtype_of_branches(tf, np):
    @tf.function
    def f(x):
        if x > 0:
            y = 1
        else:
            y = 2.0
        return y

    return error_of(f, tf.constant(1))


@program
def dtype_changes_in_a_loop(tf, np):
    @tf.function
    def f(n):
        y = tf.constant(0)
        for i in tf.range(n):
            y = 1.5
        return y

    return error_of(f, tf.constant(1))


@program
def shape_changes_in_a_loop(tf, np):
    @tf.function
    def f(n):
        y = tf.zeros([1])
        for i in tf.range(n):
            y = tf.concat([y, [1.0]], 0)
        return y

    return error_of(f, tf.constant(1))


@program
def condition_of_many(tf, np):
    @tf.function
    def f(x):
        if x > 0:
            return x
        return -x

    return error_of(f, tf.constant([1, 2]))


@program
def tensor_array_of_known_size(tf, np):
    @tf.function
    def f(x):
        ta = tf.TensorArray(tf.float32, size=3)
        for i in tf.range(3):
            ta = ta.write(i, x * tf.cast(i, tf.float32))
        return ta.stack()

    return f(tf.constant(2.0)), f(tf.constant(3.0))


@program
def tensor_array_that_grows(tf, np):
    @tf.function
    def f(x):
        ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(1, 4):
            if x > 0.0:
                ta = ta.write(i, x)
            else:
                ta = ta.write(i, x - 1.0)
        return ta.stack()

    return f(tf.constant(2.0)), f(tf.constant(-2.0))


@program
def tensor_array_in_a_while(tf, np):
    @tf.function
    def f(n):
        ta = tf.TensorArray(tf.int32, size=4)
        i = 0
        while i < n:
            ta = ta.write(i, i * i)
            i += 1
        return ta.stack()

    return f(tf.constant(4)), f(tf.constant(2))


@program
def helper_is_converted(tf, np):
    def relu(x):
        if x > 0:
            return x
        return tf.zeros_like(x)

    def twice(fn, x):
        return fn(fn(x) - 1.0)

    @tf.function
    def f(x):
        return twice(relu, x)

    return [f(tf.constant(x)) for x in (3.0, 0.5, -1.0)]


@program
def decorated_helper(tf, np):
    import functools

    def shifted(fn):
        @functools.wraps(fn)
        def call(x):
            return fn(x + 1) if x < 5 else fn(x)

        return call

    @shifted
    def half(x):
        if x % 2 == 0:
            return x // 2
        return -x

    f = tf.function(half)
    return [f(tf.constant(x)) for x in (1, 2, 6, 7)]


@program
def inherited_method(tf, np):
    class Base:
        def act(self, x):
            if x > 0:
                return x
            return -x

    class Child(Base):
        scale = 3

        def act(self, x):
            return super().act(x) * self.scale

        @tf.function
        def __call__(self, x):
            return self.act(x)

    child = Child()
    return child(tf.constant(2)), child(tf.constant(-2))


@program
def inner_functions_and_lambdas(tf, np):
    @tf.function
    def f(x):
        def clip(y, limit=3):
            if y > limit:
                return tf.constant(limit)
            return y

        pick = lambda y: y if y > 0 else -y  # noqa: E731
        return pick(clip(x)) + clip(x, limit=1)

    return [f(tf.constant(x)) for x in (-2, 2, 5)]


@program
def default_arguments_and_keywords(tf, np):
    def power(x, *, n=2, **rest):
        y = x
        for _ in range(n - 1):
            y = y * x
        return y + rest.get("extra", 0)

    @tf.function
    def f(x, n=3):
        if x > 1:
            y = power(x, n=n)
        else:
            y = power(x, extra=5)
        return y

    return f(tf.constant(2)), f(tf.constant(1)), f(tf.constant(2), n=4)


@program
def not_converted(tf, np):
    calls = []

    @tf.autograph.experimental.do_not_convert
    def plain_python(x):
        calls.append(1)
        return x * 2 if len(calls) else x

    @tf.function
    def f(x):
        y = plain_python(x)
        if y > 3:
            y = -y
        return y

    return f(tf.constant(1)), f(tf.constant(2)), len(calls)


@program
def without_autograph(tf, np):
    @tf.function(autograph=False)
    def f(x):
        if x > 0:
            return x
        return -x

    try:
        f(tf.constant(1))
    except TypeError:
        return "refused"


@program
def side_effects_happen_once(tf, np):
    seen = []

    @tf.function
    def f(x):
        seen.append("start")
        if x > 0:
            seen.append("main")
            y = x
        else:
            seen.append("else")
            y = -x
        for i in tf.range(x):
            seen.append("body")
            y += i
        return y

    out = [f(tf.constant(x)) for x in (2, -2, 4)]
    return out, seen


@program
def logic_is_lazy(tf, np):
    v = tf.Variable(0)

    def touch(x):
        v.assign_add(1)
        return x > 0

    @tf.function
    def f(a, b):
        both = a > 0 and touch(b)
        either = a > 0 or touch(b)
        return both, either, not both

    one, minus = tf.constant(1), tf.constant(-1)
    return [f(a, b) for a in (one, minus) for b in (one, minus)], read(v)


@program
def chained_comparisons(tf, np):
    @tf.function
    def f(a, b):
        count = 0
        while 0 <= count < a <= b:
            count += 1
        return count

    return f(tf.constant(3), tf.constant(4)), f(tf.constant(3), tf.constant(2))


@program
def known_conditions_stay_python(tf, np):
    @tf.function
    def f(x, mode="sum", depth=2):
        if mode == "sum":
            y = tf.reduce_sum(x)
        else:
            y = [tf.reduce_max(x), "text"]
        while depth > 0:
            x = x[:-1]
            depth -= 1
        return (y if mode == "sum" else y[0]), x

    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    return f(x), f(x, mode="max", depth=1)


@program
def strings_in_known_branches(tf, np):
    @tf.function
    def f(x, name):
        kind = "none"
        for option in ("relu", "abs"):
            if name == option:
                kind = option
        if kind == "relu":
            return tf.maximum(x, 0)
        if kind == "abs":
            return tf.abs(x)
        return x

    return [f(tf.constant(-3), name) for name in ("relu", "abs", "other")]


@program
def python_list_with_traced_branches(tf, np):
    @tf.function
    def f(xs):
        out = []
        for x in xs:
            if x > 1:
                x = x * 10
            out.append(x)
        return out

    return f([tf.constant(1), tf.constant(2)])


@program
def numbers_of_tensors(tf, np):
    @tf.function
    def f(x):
        total = 0
        for i in range(int(x)):
            total += i
        return total, float(x), abs(x)

    return f(tf.constant(4.0))


@program
def printing(tf, np):
    @tf.function
    def f(n):
        for i in tf.range(n):
            if i % 2 == 0:
                tf.print("even", i, output_stream=sys.stdout)
        return n

    return f(tf.constant(3))


@program
def finally_around_a_loop(tf, np):
    seen = []

    @tf.function
    def f(n):
        total = 0
        try:
            for i in tf.range(n):
                total += i
        except ValueError as error:
            seen.append(error)
        finally:
            seen.append("done")
        return total

    return f(tf.constant(4)), seen


@program
def fibonacci_in_arrays(tf, np):
    @tf.function
    def f(n):
        state = tf.constant([0, 1])
        for _ in tf.range(n):
            state = tf.stack([state[1], state[0] + state[1]])
        return state

    return f(tf.constant(10)), f(tf.constant(0))


@program
def newton(tf, np):
    @tf.function
    def root(x):
        guess = x
        for _ in tf.range(50):
            new = 0.5 * (guess + x / guess)
            if tf.abs(new - guess) < 1e-6:
                break
            guess = new
        return guess

    return [round(float(root(tf.constant(x))), 3) for x in (4.0, 2.0, 100.0)]


@program
def recursion_over_python(tf, np):
    def power(x, n):
        if n == 0:
            return tf.ones_like(x)
        half = power(x, n // 2)
        return half * half * (x if n % 2 else 1)

    @tf.function
    def f(x, n):
        return power(x, n)

    return f(tf.constant(2), 10), f(tf.constant(3), 5)


@program
def keras_optimizer_in_a_loop(tf, np):
    v = tf.Variable(4.0)
    optimizer = tf.keras.optimizers.SGD(0.1)

    def loss():
        if v > 2.0:
            return v * v
        return v * 3.0

    with contextlib.redirect_stdout(io.StringIO()):
        optimizer.build([v])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            value = loss()
        optimizer.apply([tape.gradient(value, v)], [v])
        return value

    return [round(float(step()), 4) for _ in range(6)], round(float(read(v)), 4)


if __name__ == "__main__":
    write_results(PROGRAMS, RESULTS)
