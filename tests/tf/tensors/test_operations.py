"""What all functions of tensors have in common."""

import inspect

import pytest

from mirrax import tf


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: tf.linalg.pinv([[2.0]], None, False, "name"), [[0.5]]),
        (lambda: tf.linalg.pinv([[2.0]], name="name"), [[0.5]]),
        (lambda: tf.nn.relu(features=[-1.0, 1.0]), [0.0, 1.0]),
        (lambda: tf.one_hot(indices=[0], depth=2, name="name"), [[1.0, 0.0]]),
        (lambda: tf.strings.upper(input=["a"]), [b"A"]),
    ],
    ids=["name by position", "name", "activation", "first by name", "strings"],
)
def test_arguments_are_given_as_to_tensorflow(call, expected):
    assert call().tolist() == expected


def test_functions_of_values_take_ragged_tensors():
    words = tf.ragged.constant([["a"], ["b", "c"]])
    assert tf.strings.upper(input=words).to_list() == [[b"A"], [b"B", b"C"]]
    assert tf.nn.relu(tf.ragged.constant([[-1.0], []])).to_list() == [[0.0], []]


def test_functions_show_their_arguments():
    assert str(inspect.signature(tf.linalg.norm)) == (
        "(tensor: 'Array', ord: 'Any' = 'euclidean', axis: 'Any' = None, "
        "keepdims: 'Any' = None) -> 'Any'"
    )


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="unexpected keyword argument 'transposed'"):
        tf.matmul([[1.0]], [[1.0]], transposed=True)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        tf.matmul([[1.0]])
    with pytest.raises(TypeError, match="positional arguments"):
        tf.linalg.pinv([[2.0]], None, False, "name", 1)


ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.matmul(ROWS, ROWS), "contracting dimensions"),
        (lambda: tf.add(ROWS, [1.0, 2.0]), "Incompatible shapes"),
        (lambda: tf.reshape(ROWS, [4]), "cannot reshape"),
        (lambda: tf.concat([ROWS, [[1.0]]], 0), "Cannot concatenate"),
        (lambda: tf.reduce_sum(ROWS, 5), "out of bounds"),
        (lambda: tf.nn.bias_add(tf.constant(ROWS), [1.0, 2.0]), "Incompatible shapes"),
    ],
    ids=["matmul", "add", "reshape", "concat", "reduce_sum", "bias_add"],
)
def test_operands_that_do_not_match_are_refused_as_by_tensorflow(call, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call()
    with pytest.raises(ValueError, match=message):
        tf.function(call, autograph=False)()


def test_errors_of_operations_show_where_they_were_raised():
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        tf.reshape(ROWS, [4])
    assert "reshape" in [frame.name for frame in raised.traceback]
    assert raised.value.__suppress_context__
