"""What programs do with tensors that JAX's arrays do not have or do otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mirrax.tf.migration.findings import DIFFERS, Finding
from mirrax.tf.tensors.tensor_attributes import LIMITS, OF_DTYPES, OF_SHAPES

_ABOUT_SHAPES = (
    "`mirrax tf` and `tf.function` provide it; elsewhere only variables and elements "
    "of datasets have it, so use `x.get_shape()`, or the shape as a tuple"
)
ABOUT_DTYPES = (
    "`mirrax tf` and `tf.function` provide it; elsewhere dtypes are NumPy's, so use "
    "`np.issubdtype(dtype, np.floating)`, `np.finfo(dtype).max` or the dtype itself"
)
_ABOUT_LISTS = "JAX's arrays take no lists as operands; write `tf.constant([...])`"
_ABOUT_GROWTH = (
    "in a loop of unknown length, the function's Python runs on every call; give the "
    "array its size"
)


def find_habits(tree: ast.Module) -> list[Finding]:
    """Returns such uses in a program."""
    return [habit for node in ast.walk(tree) for habit in _habits(node)]


def _habits(node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
        kind = node.value.attr
        if kind == "shape" and node.attr in OF_SHAPES:
            yield Finding(node.lineno, DIFFERS, f".shape.{node.attr}", _ABOUT_SHAPES)
        elif kind == "dtype" and node.attr in (*OF_DTYPES, *LIMITS):
            yield Finding(node.lineno, DIFFERS, f".dtype.{node.attr}", ABOUT_DTYPES)
    elif isinstance(node, ast.BinOp):
        if _may_be_tensor_with_list(node) or _may_be_tensor_with_list(_swapped(node)):
            yield Finding(node.lineno, DIFFERS, ast.unparse(node), _ABOUT_LISTS)
    elif isinstance(node, ast.keyword) and ast.unparse(node) == "dynamic_size=True":
        yield Finding(node.lineno, DIFFERS, "dynamic_size=True", _ABOUT_GROWTH)


def _may_be_tensor_with_list(node: ast.BinOp) -> bool:
    """Returns whether the left operand may be a tensor, and the right one is a list."""
    other, listed = ast.unparse(node.left), node.right
    if not isinstance(listed, ast.List) or other.startswith(("[", "np.")):
        return False
    if isinstance(node.op, ast.Add):
        # Lists of names or sizes are joined.
        numbers = [x.value for x in ast.walk(listed) if isinstance(x, ast.Constant)]
        is_decimal = any(isinstance(number, float) for number in numbers)
        return is_decimal or other.startswith("tf.")
    # `n * [0]` repeats a list.
    return not isinstance(node.op, ast.Mult) or len(listed.elts) > 1


def _swapped(node: ast.BinOp) -> ast.BinOp:
    return ast.BinOp(node.right, node.op, node.left)
