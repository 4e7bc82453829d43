"""Tensors in the memory of the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import tf
from mirrax.tf.tensors.host_tensors import HostTensor, host


def test_numpy_gives_a_copy_of_numpys_own():
    tensor = host(np.arange(3))
    copy = tensor.numpy()
    copy[0] = 7
    assert type(copy) is np.ndarray
    assert tensor.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (np.int64(2**40), 2**40, np.int64),
        (2.5, 2.5, np.float64),
        (True, True, np.bool_),
        (b"text\0", b"text\0", bytes),
    ],
    ids=["integer", "float", "bool", "bytes"],
)
def test_scalars_keep_their_value_and_type(value, expected, kind):
    scalar = host(value).numpy()
    assert scalar == expected
    assert type(scalar) is kind


def test_items_and_rows_are_tensors():
    matrix = host(np.ones((2, 3), np.float32))
    assert matrix[0].shape.as_list() == [3]
    assert matrix[0, 0].numpy() == 1
    assert [row[1].numpy() for row in matrix] == [1, 1]
    assert [item.numpy() for item in host(np.arange(2))] == [0, 1]


def test_shapes_answer_as_tensorflows_do():
    tensor = host(np.zeros((2, 3)))
    assert tensor.shape == (2, 3)
    assert tensor.shape[1:].as_list() == [3]
    assert tensor.get_shape().num_elements() == 6
    assert tf.ones([4, 1]).get_shape().as_list() == [4, 1]


def test_numbers_are_python_numbers_where_those_are_needed():
    tensor = host(np.int64(3))
    assert (int(tensor), float(tensor), f"{tensor:03d}") == (3, 3.0, "003")
    assert list(range(tensor)) == [0, 1, 2]
    assert (tensor * 2 + 1).numpy() == 7


def test_jax_takes_them_as_they_are():
    tensor = host(np.arange(3.0, dtype=np.float32))
    assert isinstance(jnp.sum(tensor), jax.Array)
    assert isinstance(tensor + jnp.ones(3), jax.Array)
    assert jax.jit(lambda x: x * 2)(tensor).tolist() == [0, 2, 4]


def test_run_and_function_take_them_as_they_are():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    doubled = tf.function(lambda x: x * 2)(host(np.float32(2)))
    result = strategy.run(tf.function(lambda x: x + 1), args=(host(np.float32(1)),))
    assert doubled.numpy() == 4
    assert strategy.reduce("SUM", result, axis=None).numpy() == 4


def test_they_are_tensors():
    assert tf.is_tensor(host(1))
    assert isinstance(host(b"text"), tf.Tensor)
    assert not isinstance(np.ones(1), tf.Tensor)


def test_other_things_stay_as_they_are():
    thing = object()
    assert host(thing) is thing


def test_shapes_and_sizes_are_tensors():
    tensor = tf.zeros([2, 3])
    assert tf.shape(tensor).numpy().tolist() == [2, 3]
    assert tf.shape(tensor)[0].numpy() == 2
    assert tf.size(tensor).numpy() == 6
    assert tf.rank(tensor).numpy() == 2
    assert tf.shape(tensor, out_type=tf.int32).dtype == tf.int32


def test_sizes_of_traced_tensors_are_known():
    @tf.function
    def halves(x):
        return tf.reshape(x, [tf.shape(x)[0] // 2, 2, -1])

    assert halves(tf.zeros([4, 3])).shape == (2, 2, 3)


def test_strings_are_of_this_kind():
    texts = tf.constant(["a", "bc"])
    assert isinstance(texts, HostTensor)
    assert texts[1].numpy() == b"bc"
    assert tf.strings.join([texts[0], texts[1]], "-").numpy() == b"a-bc"


@pytest.mark.parametrize("made", [lambda x: x, jnp.asarray], ids=["host", "jax"])
def test_a_shape_that_is_set_must_be_the_one_there_is(made):
    tensor = made(host(np.ones((2, 3), np.float32)))
    tensor.set_shape([None, 3])
    with pytest.raises(
        ValueError, match=r"Shapes \(2, 3\) and \(4,\) are incompatible"
    ):
        tensor.set_shape([4])


def test_py_function_gets_what_lies_on_the_host_as_it_is():
    found = tf.py_function(lambda x: x.numpy() // 2**38, [np.int64(2**40)], tf.int32)
    assert found.numpy() == 4


def test_strings_print_as_in_tensorflow():
    one = tf.constant("a")
    assert repr(one) == "<tf.Tensor: shape=(), dtype=string, numpy=b'a'>"
    assert str(one) == "tf.Tensor(b'a', shape=(), dtype=string)"
    assert f"{one} {tf.constant(['a', 'b'])}" == "b'a' [b'a' b'b']"
    two = tf.constant(["a", "b"])
    expected = "array([b'a', b'b'], dtype=object)"
    assert repr(two) == f"<tf.Tensor: shape=(2,), dtype=string, numpy={expected}>"


def _all_gather(strategy, strings):
    context = tf.distribute.get_replica_context
    return strategy.run(lambda s: context().all_gather(s, axis=0), (strings,))


@pytest.mark.parametrize(
    "combine",
    [
        lambda strategy, strings: strategy.reduce("SUM", strings, axis=None),
        lambda strategy, strings: strategy.gather(strings, axis=0),
        _all_gather,
    ],
    ids=["reduce", "gather", "all_gather"],
)
def test_strings_are_not_combined(combine):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    strings = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(["a", "b"])
    )
    with pytest.raises(TypeError, match=r"combine numbers.*strings.*local_results"):
        combine(strategy, strings)
