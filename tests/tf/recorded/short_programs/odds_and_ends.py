"""Names that programs use now and then."""

# The programs are data: dense, each read as a whole.
# ruff: noqa


def numbers(tf, np):
    return [
        tf.math.erfcinv([0.5, 1.0, 1.5]),
        tf.realdiv([1.0, 3.0], 2.0),
        tf.as_string([1, 2]),
        tf.strings.as_string(3),
    ]


def ranks(tf, np):
    tf.debugging.assert_rank_in(tf.ones([2, 2]), (1, 2))
    return tf.debugging.get_log_device_placement()


def wrong_rank(tf, np):
    tf.debugging.assert_rank_in(tf.ones([2, 2]), (0, 1))


def placement(tf, np):
    tf.debugging.set_log_device_placement(False)
    return tf.constant(1.0) + 1.0


def order_of_keys(tf, np):
    nested = {"b": 1, "a": (2, {"d": 3, "c": 4})}
    found = [
        tf.nest.map_structure(lambda x: x + 1, nested),
        tf.nest.pack_sequence_as({"b": 1, "a": 2}, [5, 6]),
    ]
    return [list(x) for x in found], found


def formatted(tf, np):
    row = next(iter(tf.data.Dataset.from_tensor_slices(([1.5], ["a"], [[1, 2]]))))
    return ["{:.2f} {} {}".format(*row), f"{tf.constant('a')} {tf.constant([1])}"]


def experimental_generators(tf, np):
    generator = tf.random.experimental.Generator.from_seed(1)
    seeds = tf.random.experimental.stateless_split([1, 2], num=3)
    return [
        list(generator.normal([2, 3]).shape),
        list(seeds.shape),
        list(tf.random.experimental.stateless_fold_in([1, 2], 3).shape),
    ]


def mutable_table(tf, np):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["a", "b"], [1, 2])
    table.insert("b", 3)
    keys = tf.constant(["a", "b", "c"])
    found = [table.lookup(keys), table[keys], table.size()]
    table.remove(tf.constant(["a", "z"]))
    return [*found, table.size(), *table.export(), table.lookup(tf.constant("a"))]


def mutable_table_of_vectors(tf, np):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0, 0.5])
    table.insert([1, 2], [[1, 2], [3, 4]])
    keys = tf.constant([2, 9], tf.int64)
    others = tf.constant([[7.0, 7.0], [8.0, 8.0]])
    return [table.lookup([[1], [5]]), table.lookup(keys, others)]


def mutable_table_of_other_keys(tf, np):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert([1], [2])


def dense_table(tf, np):
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.int64, default_value=-1, empty_key=[0, 0], deleted_key=[-1, -1]
    )
    table.insert([[1, 2], [3, 4]], [10, 20])
    table.insert_or_assign([[1, 2]], [30])
    table.erase(tf.constant([[3, 4]], tf.int64))
    keys = tf.constant([[1, 2], [3, 4], [5, 6]], tf.int64)
    return [table.lookup(keys), table.size()]


def dense_table_of_equal_keys(tf, np):
    tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, 0)


def table_in_a_function(tf, np):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([3, 4])),
        default_value=-1,
    )

    @tf.function
    def find(keys):
        return table.lookup(keys) + 1

    return find(tf.constant([2, 5]))


def slice_beyond_the_tensor(tf, np):
    return tf.slice([1, 2, 3], [2], [4])


def slice_before_the_tensor(tf, np):
    return tf.slice([1, 2, 3], [-1], [1])


def jacobians_of_other_targets(tf, np):
    x = tf.constant([[2.0], [3.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        other, empty = tf.ones([2, 1]), x[:, :0]
    return [tape.batch_jacobian(other, x), tf.shape(tape.jacobian(empty, x))]


def batch_jacobian_of_a_vector(tf, np):
    x = tf.constant([2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.batch_jacobian(y, x)


def variables_of_a_tape(tf, np):
    first, second = tf.Variable(1.0), tf.Variable(2.0, trainable=False)
    with tf.GradientTape() as tape:
        tape.watch(second)
        found = [v.numpy() for v in tape.watched_variables()]
        tape.reset()
        first * second
    return found, [v.numpy() for v in tape.watched_variables()]


def defaults_in_an_input_signature(tf, np):
    @tf.function(input_signature=[tf.TensorSpec([]), tf.TensorSpec([])])
    def f(x, y=5.0):
        return x * y

    @tf.function(input_signature=[tf.TensorSpec([])])
    def g(x=3.0, negate=False):
        return -x if negate else x

    return f(tf.constant(2.0)), f(2.0, 3.0), f(x=2.0), g(), g(1.0)


def defaults_that_are_missing(tf, np):
    @tf.function(input_signature=[tf.TensorSpec([]), tf.TensorSpec([])])
    def f(x, y):
        return x * y

    f(tf.constant(2.0))
