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
