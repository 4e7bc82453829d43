import jax
import numpy as np
import pytest

import mirrax
from mirrax import tf


def test_tensors_answer_numpy_with_a_copy():
    tensor = tf.constant([1.0, 2.0])
    copy = tensor.numpy()
    copy[0] = 9
    assert tensor.numpy().tolist() == [1, 2]


def test_scalars_answer_numpy_with_a_number():
    assert isinstance(tf.constant(1.5).numpy(), np.float32)


def test_matrices_are_shown_with_their_rows_below_each_other():
    part = tf.constant([[1.0], [2.0]])
    value = mirrax.PerReplica((part, next(iter(tf.data.Dataset.from_tensors(part)))))
    shown = (
        "<tf.Tensor: shape=(2, 1), dtype=float32, numpy=\n"
        "array([[1.],\n"
        "       [2.]], dtype=float32)>"
    )
    assert repr(value) == f"PerReplica:{{\n  0: {shown},\n  1: {shown}\n}}"


def test_parts_of_a_value_are_shown_as_tensors():
    value = mirrax.PerReplica((tf.constant(1.5), tf.constant([1, 2]), "text"))
    assert repr(value) == (
        "PerReplica:{\n"
        "  0: <tf.Tensor: shape=(), dtype=float32, numpy=1.5>,\n"
        "  1: <tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2])>,\n"
        "  2: 'text'\n"
        "}"
    )
    assert str(value) == (
        "PerReplica:{\n"
        "  0: tf.Tensor(1.5, shape=(), dtype=float32),\n"
        "  1: tf.Tensor([1 2], shape=(2,), dtype=int32),\n"
        "  2: text\n"
        "}"
    )


def test_devices_answer_like_the_name_of_a_device():
    device = tf.constant(1.0).device
    assert device.split("/")[-1] == "device:CPU:0"
    assert device.endswith("CPU:0")
    assert "CPU" in device


def test_tensors_are_jax_arrays():
    assert isinstance(tf.zeros([2]), jax.Array)
    assert isinstance(tf.zeros([2]), tf.Tensor)
    assert tf.is_tensor(tf.zeros([2]))
    assert tf.is_tensor(tf.Variable(1.0))
    assert not tf.is_tensor(np.zeros(2))


def test_constants_keep_their_dtype_beside_others():
    assert (tf.constant(1.5) * tf.cast(tf.constant(2), tf.float16)).dtype == np.float32


def test_numbers_take_the_dtype_of_the_other():
    assert tf.add(tf.constant(1, tf.float16), 2.5).dtype == np.float16


def test_strings_are_bytes():
    assert tf.constant("text").numpy() == b"text"
    assert tf.constant(["a", b"b"]).numpy().tolist() == [b"a", b"b"]
    assert tf.identity("x").dtype == tf.string


@pytest.mark.parametrize(
    "function", [tf.reduce_sum, tf.identity, tf.exp, tf.shape], ids=lambda f: f.__name__
)
def test_a_per_replica_is_no_tensor(function):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    value = strategy.run(lambda: tf.constant(1.0))
    with pytest.raises(ValueError, match="A PerReplica is not a tensor"):
        function(value)


def test_functions_take_variables():
    variable = tf.Variable([1.0, 2.0])
    assert tf.reduce_sum(variable).numpy() == 3
    assert tf.stack([variable, variable]).shape == (2, 2)


def test_functions_work_inside_programs():
    @tf.function
    def program(x):
        y = tf.nn.softmax(tf.matmul(x, tf.transpose(x)))
        return tf.reduce_sum(tf.where(y > 0.5, y, tf.zeros_like(y)), axis=-1)

    assert program(tf.eye(3)).numpy().tolist() == pytest.approx([0.576117] * 3)


def test_maps_of_casts_run_for_many_elements_at_once():
    class Calls:
        count = 0

    def scale(x):
        Calls.count += 1
        return tf.reshape(tf.cast(x, tf.float32) / 4, [2, 1])

    data = np.arange(8, dtype=np.int32).reshape(4, 2)
    dataset = tf.data.Dataset.from_tensor_slices(data).map(scale).batch(4)
    (batch,) = dataset.as_numpy_iterator()
    assert batch[1].tolist() == [[0.5], [0.75]]
    assert Calls.count < 4


def test_shapes_answer_as_those_of_tensorflow():
    shape = tf.TensorShape([None, 3])
    assert shape.rank == shape.ndims == 2
    assert not shape.is_fully_defined()
    assert shape.num_elements() is None
    assert shape.is_compatible_with([7, 3])
    assert not shape.is_compatible_with([7, 4])
    assert shape.concatenate([1]) == (None, 3, 1)
    assert shape.dims == [None, 3]


def test_ensure_shape_raises_for_another():
    with pytest.raises(ValueError, match=r"\(2,\) is not compatible .* \(3,\)"):
        tf.ensure_shape(tf.zeros([2]), [3])


def test_sort_needs_a_direction():
    with pytest.raises(ValueError, match="'ASCENDING' or 'DESCENDING'"):
        tf.sort([1.0], direction="UP")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.nn.max_pool(tf.zeros([1, 4, 1]), 2, 1, "FULL"), "'SAME', 'VALID'"),
        (lambda: tf.nn.max_pool(tf.zeros([1] * 4), [1] * 3, 1, "SAME"), "1, 2 or 4"),
        (lambda: tf.nn.dropout([1.0], 1.0), "below 1"),
        (lambda: tf.nn.compute_average_loss(1.0), "one loss for each example"),
        (lambda: tf.nn.compute_average_loss([1.0], global_batch_size=[2]), "a scalar"),
        (lambda: tf.nn.pool(tf.zeros([1, 4, 1]), [2], "MIN"), "'MAX' or 'AVG'"),
        (lambda: tf.random.uniform([1], dtype=tf.int32), "an upper limit"),
        (lambda: tf.random.stateless_normal([1], seed=1), "two integers"),
    ],
    ids=["padding", "strides", "rate", "scalar", "batch_size", "pool", "limit", "seed"],
)  # fmt: skip
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_average_losses_add_up_over_replicas():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    loss = strategy.run(lambda: tf.nn.compute_average_loss([2.0, 4.0]))
    assert strategy.reduce("SUM", loss, axis=None) == 3
    penalty = strategy.run(lambda: tf.nn.scale_regularization_loss(6.0))
    assert strategy.reduce("SUM", penalty, axis=None) == 6
    with strategy.scope(), pytest.raises(RuntimeError, match=r"inside `strategy.run`"):
        tf.nn.compute_average_loss([1.0])


def test_dropout_makes_up_for_what_it_drops():
    tf.random.set_seed(1)
    dropped = tf.nn.dropout(tf.ones([1000, 4]), 0.5, noise_shape=[1000, 1]).numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()
    assert dropped.mean() == pytest.approx(1, abs=0.15)


def test_a_constant_can_be_the_source_of_a_tape():
    def slope():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x)

    assert slope().numpy() == 6
    assert tf.function(slope)().numpy() == 6


def test_integer_constants_can_be_shapes_in_a_function():
    @tf.function
    def reshaped(x):
        return tf.reshape(x, tf.constant([2, -1]))

    assert reshaped(tf.ones([4])).shape == (2, 2)


def test_print_writes_to_a_file(tmp_path):
    path = tmp_path / "out.txt"
    tf.print("a", tf.constant(1), output_stream=f"file://{path}")
    tf.function(lambda x: tf.print(x, output_stream=f"file://{path}"))(tf.ones([]))
    jax.effects_barrier()
    assert path.read_text() == "a 1\n1.0\n"


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("reduce_max", "float32", -np.inf),
        ("reduce_min", "float32", np.inf),
        ("reduce_max", "bfloat16", -np.inf),
        ("reduce_max", "int32", -(2**31)),
        ("reduce_min", "int32", 2**31 - 1),
        ("reduce_min", "uint8", 255),
        ("reduce_logsumexp", "float32", -np.inf),
        ("reduce_mean", "int32", 0),
    ],
)
def test_reductions_of_nothing_are_those_of_tensorflow(name, dtype, expected):
    empty = tf.zeros((0, 2), getattr(tf, dtype))
    found = getattr(tf, name)(empty, axis=0)
    assert found.dtype == dtype
    assert found.tolist() == [expected, expected]


def test_sum_of_booleans_is_their_number():
    assert tf.reduce_sum(tf.constant([[True, True], [False, True]]), 0).tolist() == [
        1,
        2,
    ]


def test_mask_of_no_sequences_is_empty():
    assert tf.sequence_mask(tf.zeros((0,), tf.int32)).shape == (0, 0)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: tf.constant(1.0), tf.float32),
        (lambda: tf.constant([[1, 2]]), tf.int32),
        (lambda: tf.constant(2**40), tf.int64),
        (lambda: tf.constant([]), tf.float32),
        (lambda: tf.constant([True]), tf.bool),
        (lambda: tf.constant(np.float64(1)), tf.float64),
        (lambda: tf.constant(1, tf.float64), tf.float64),
        (lambda: tf.range(3), tf.int32),
        (lambda: tf.range(3, dtype=tf.int64), tf.int64),
        (lambda: tf.Variable(0.0), tf.float32),
        (lambda: tf.Variable([1]), tf.int32),
        (lambda: tf.constant(1.0) * 2.5, tf.float32),
    ],
)
def test_python_numbers_have_32_bits_where_64_are_enabled(make, dtype):
    with jax.enable_x64(True):
        assert make().dtype == dtype


def test_numbers_and_lists_have_64_bits_where_asked_for():
    with jax.enable_x64(True):
        made = tf.constant([1.1], tf.float64)
        assert made.numpy().tolist() == [1.1]
        assert tf.add(tf.zeros([1], tf.float64), [1.1]).numpy().tolist() == [1.1]


def test_lists_take_the_dtype_of_a_tensor_that_can_hold_them():
    assert tf.multiply(tf.ones([2], tf.bfloat16), [1.5, 2]).dtype == tf.bfloat16
    product = tf.multiply(tf.constant([1, 2]), [1.5, 2.5])
    assert product.numpy().tolist() == [1.5, 5.0]


def test_no_strings_are_a_tensor_of_strings():
    empty = tf.constant([], dtype=tf.string)
    assert empty.numpy().tolist() == []
    assert empty.dtype == tf.string
    assert tf.fill([2], "a").numpy().tolist() == [b"a", b"a"]


def test_shapes_are_compared_with_and_joined_to_lists():
    shape = tf.ones([2, 3]).get_shape()
    assert shape == [2, 3]
    assert shape != [2, 4]
    last = [4]
    assert (shape + last).as_list() == [2, 3, 4]
    assert (last + shape[:1]).as_list() == [4, 2]
    assert (shape + tf.TensorShape(None)).rank is None


def test_the_average_loss_of_no_examples_is_0():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    losses = strategy.run(lambda: tf.nn.compute_average_loss(tf.zeros([0])))
    assert float(strategy.reduce("SUM", losses, axis=None)) == 0
