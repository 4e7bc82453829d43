"""Lists of tensors."""

# The programs are data: dense, each read as a whole.
# ruff: noqa


def write_and_stack(tf, np):
    ta = tf.TensorArray(tf.float32, size=3)
    for i in range(3):
        ta = ta.write(i, tf.constant([float(i), 1.0]))
    return [ta.stack(), ta.size(), ta.dtype.name, ta.concat()]


def grows(tf, np):
    ta = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
    for i in range(4):
        ta = ta.write(i, i * 2)
    return [ta.stack(), int(ta.size()), ta.dynamic_size]


def unstack_and_read(tf, np):
    ta = tf.TensorArray(tf.float32, size=2, clear_after_read=False).unstack(
        [[1.0, 2.0], [3.0, 4.0]]
    )
    return [ta.read(1), ta.read(0) + ta.read(1), ta.gather([1, 0])]


def scatter_and_split(tf, np):
    a = tf.TensorArray(tf.float32, size=3).scatter([2, 0, 1], [[1.0], [2.0], [3.0]])
    b = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(
        [1.0, 2.0, 3.0], [1, 2]
    )
    return [a.stack(), b.concat()]


def never_written(tf, np):
    return (
        tf.TensorArray(tf.float32, size=2, element_shape=[2])
        .write(1, [1.0, 2.0])
        .stack()
    )


def past_the_end(tf, np):
    tf.TensorArray(tf.float32, size=2).write(2, 1.0)


def read_past_the_end(tf, np):
    tf.TensorArray(tf.float32, size=2).read(2)


def other_dtype(tf, np):
    tf.TensorArray(tf.float32, size=2).write(0, tf.constant(1))


def other_shape(tf, np):
    tf.TensorArray(tf.float32, size=2).write(0, [1.0]).write(1, [1.0, 2.0])


def in_a_function(tf, np):
    @tf.function
    def f(x):
        ta = tf.TensorArray(tf.float32, size=3)
        for i in range(3):
            ta = ta.write(i, x * float(i))
        return ta.stack()

    return f(tf.constant([1.0, 2.0]))


def in_a_loop(tf, np):
    @tf.function
    def f(x):
        ta = tf.TensorArray(tf.float32, size=4)

        def body(i, y, ta):
            return i + 1, y * 2.0, ta.write(i, y)

        _, last, ta = tf.while_loop(
            lambda i, y, ta: i < 4, body, [tf.constant(0), x, ta]
        )
        return last, ta.stack()

    return f(tf.constant([1.0, 3.0]))


def in_an_eager_loop(tf, np):
    ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    i, ta = tf.while_loop(
        lambda i, ta: i < 3,
        lambda i, ta: (i + 1, ta.write(i, tf.cast(i, tf.float32))),
        [tf.constant(0), ta],
    )
    return [i, ta.stack()]


def gradient(tf, np):
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        ta = tf.TensorArray(tf.float32, size=3)
        for i in range(3):
            ta = ta.write(i, v ** float(i + 1))
        loss = tf.reduce_sum(ta.stack())
    return tape.gradient(loss, v)


def recurrent_by_hand(tf, np):
    w = tf.Variable([[0.5, 0.1], [0.2, 0.3]])

    @tf.function
    def run(inputs):
        steps = inputs.shape[1]
        outputs = tf.TensorArray(tf.float32, size=steps)
        state = tf.zeros([2, 2])
        for t in tf.range(steps):
            state = tf.tanh(inputs[:, t] @ w + state)
            outputs = outputs.write(t, state)
        return tf.transpose(outputs.stack(), [1, 0, 2])

    return run(np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 10)


def batch_jacobian(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.concat([x * x, tf.reduce_prod(x, 1, keepdims=True)], 1)
    return tape.batch_jacobian(y, x)


def batch_jacobian_compiled(tf, np):
    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x) * x[:, ::-1]
        return tape.batch_jacobian(y, x)

    return f(tf.constant([[1.0, 2.0], [3.0, 4.0]]))


def batch_jacobian_of_other_rows(tf, np):
    x = tf.constant([[1.0], [2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x[:1]
    tape.batch_jacobian(y, x)


def specs(tf, np):
    spec = tf.TensorSpec([None, 2], tf.float32)
    found = tf.type_spec_from_value(tf.constant([[1.0, 2.0]]))
    return [isinstance(spec, tf.TypeSpec), repr(found), isinstance(3, tf.TypeSpec)]
