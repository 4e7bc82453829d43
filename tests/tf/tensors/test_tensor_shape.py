"""Shapes that answer the questions of TensorFlow's."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import TensorSpec, tf
from mirrax.tf import TensorShape


@pytest.fixture(params=["plain", "mirrored"])
def variable(request):
    if request.param == "plain":
        return tf.Variable([[1.0, 2.0]])
    with mirrax.MirroredStrategy().scope():
        return tf.Variable([[1.0, 2.0]])


def test_the_shape_of_a_variable_answers_as_tensorflows_does(variable):
    shape = variable.shape
    assert (shape.as_list(), shape.rank, shape.ndims) == ([1, 2], 2, 2)
    assert (shape.num_elements(), shape.is_fully_defined()) == (2, True)
    assert variable.get_shape() == shape == (1, 2)
    assert shape[1:].as_list() == [2]


def test_it_is_a_tuple_for_jax(variable):
    assert jnp.zeros(variable.shape).shape == (1, 2)
    assert jax.tree.leaves(variable.shape) == [1, 2]
    assert jax.jit(lambda shape: shape[1] + 1)(variable.shape) == 3
    assert jax.tree.map(str, variable.shape) == ("1", "2")


def test_a_size_that_is_not_known_leaves_their_product_unknown():
    shape = TensorShape([None, 3])
    assert shape.num_elements() is None
    assert not shape.is_fully_defined()
    assert shape.is_compatible_with((7, 3))
    with pytest.raises(ValueError, match=r"\(None, 3\) and \(7, 4\) are incompat"):
        shape.assert_is_compatible_with((7, 4))


def test_unknown_rank_is_compatible_with_every_shape():
    shape = TensorShape(None)
    assert (shape.rank, shape.dims, str(shape)) == (None, None, "<unknown>")
    assert shape == TensorShape(shape) != TensorShape([])
    assert not shape.is_fully_defined()
    assert shape.num_elements() is None
    assert shape.is_compatible_with([1, 2])
    assert TensorShape([1]).is_compatible_with(shape)
    assert repr(TensorShape([1]).concatenate(shape)[1:]) == "TensorShape(None)"
    assert TensorSpec(shape) == TensorSpec(None)


@pytest.mark.parametrize("read", [len, list, TensorShape.as_list])
def test_sizes_of_an_unknown_rank_are_refused(read):
    with pytest.raises(ValueError, match="known only if its rank is"):
        read(TensorShape(None))


def test_merged_shapes_know_what_either_knows():
    assert TensorShape([None, 2]).merge_with([3, None]) == (3, 2)
    assert (
        TensorShape(None).merge_with([3]) == TensorShape([3]).merge_with(None) == (3,)
    )
    assert TensorShape(None).with_rank(2) == (None, None)
    with pytest.raises(ValueError, match="incompatible"):
        TensorShape([1]).with_rank(2)


def test_shapes_are_put_together_while_a_function_is_traced(caplog):
    @tf.function
    def fn(x):
        rows = tf.reshape(x, tf.stack([tf.shape(x)[0], -1]))
        return rows, tf.zeros(tf.concat([tf.shape(rows)[:-1], [5]], axis=0))

    rows, zeros = fn(tf.ones([2, 3, 1]))
    assert (rows.shape, zeros.shape) == ((2, 3), (2, 5))
    # It was compiled.
    assert not caplog.records


def test_specs_are_made_of_tensors_and_compared_with_them():
    spec = tf.TensorSpec([None, 3])
    assert spec.is_compatible_with(tf.ones([2, 3]))
    assert not spec.is_compatible_with(tf.ones([2, 3], tf.int32))
    assert not spec.is_compatible_with(tf.TensorSpec([2]))
    made = tf.TensorSpec.from_tensor(tf.ones([2]), name="x")
    assert made == tf.TensorSpec.from_spec(tf.TensorSpec([2]), name="x")


def test_traced_tensors_have_a_shape():
    @tf.function
    def fn(x):
        x.set_shape([None, 3])
        return tf.zeros(x.get_shape().as_list()[:1])

    assert fn(tf.ones([2, 3])).shape == (2,)
    with pytest.raises(ValueError, match="are incompatible"):
        fn(tf.ones([2, 4]))
