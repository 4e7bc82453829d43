"""Shapes and dtypes as in TensorFlow, in converted functions and whole programs."""

import ast

import jax
import pytest

from mirrax import tf
from mirrax.tf.tensors.tensor_attributes import (
    Operand,
    TensorAttributes,
    dtype_of,
    shape_of,
)


def test_shapes_and_dtypes_in_a_function():
    @tf.function
    def flattened(x):
        rows, columns = x.shape.as_list()
        low = tf.cast(x.dtype.min, tf.float32)
        shape = x.shape
        return tf.reshape(tf.maximum(x, low), [rows * columns]), shape.rank

    flat, rank = flattened(tf.ones([2, 3]))
    assert flat.shape == (6,)
    assert rank == 2


def test_lists_with_tensors_in_a_compiled_function():
    traced = []

    @tf.function
    def step(x):
        traced.append(isinstance(x, jax.core.Tracer))
        return x * [tf.reduce_sum(x), 2.0]

    assert step(tf.constant([1.0, 2.0])).numpy().tolist() == [3, 4]
    assert traced == [True]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.shape.as_list()", [2, 3]),
        ("x.shape.is_compatible_with([None, 3])", True),
        ("x.shape.with_rank(2).as_list()", [2, 3]),
        ("x.shape.num_elements()", 6),
        ("[x.shape.ndims for _ in range(2)]", [2, 2]),
        ("tf.TensorSpec([None, 2]).shape.as_list()", [None, 2]),
        ("x.dtype.is_integer", False),
        ("x.dtype.as_numpy_dtype(1.5)", 1.5),
        ("tf.int32.max", 2**31 - 1),
        ("[shape.as_list() for shape in (x.shape,)]", [[2, 3]]),
        ("[dtype.is_floating for dtype in (x.dtype, tf.int32)]", [True, False]),
        ("[dtype.as_numpy_dtype(1) for dtype in (tf.float16,)]", [1]),
        (
            "[x.dtype.is_complex, tf.uint8.is_unsigned, x.dtype.is_bool]",
            [False, True, False],
        ),
        ("tf.rank(x).numpy()", 2),
        ("x.shape", (2, 3)),
        ("(x * [1.0, 2.0, 3.0] - [1, 1, 1]).numpy().tolist()", [[0, 1, 2]] * 2),
        ("([1.0, 2.0, 3.0] / x)[0].numpy().tolist()", [1, 2, 3]),
        ("(tf.Variable(2.0) * [1.0, 2.0]).numpy().tolist()", [2, 4]),
        ("([3, 4] * tf.constant(2)).numpy().tolist()", [6, 8]),
        ("(tf.constant([1, 2]) * [1.5, 2.5]).numpy().tolist()", [1.5, 5]),
        ("[0] * 2 + [1]", [0, 0, 1]),
    ],
)
def test_rewritten_expressions(expression, expected):
    tree = TensorAttributes("_").visit(ast.parse(expression, mode="eval"))
    names = {"_shape_of": shape_of, "_dtype_of": dtype_of, "_Operand": Operand}
    code = compile(tree, "program", "eval")
    assert eval(code, {"tf": tf, "x": tf.ones([2, 3]), **names}) == expected
