"""What TensorFlow's tensors, shapes and dtypes have, and those of JAX do not.

A program that is run unchanged, and what AutoGraph converts, is rewritten:
`x.shape.as_list()` becomes `shape_of(x.shape).as_list()`, `x * [1.0, 2.0]` becomes
`x * Operand([1.0, 2.0])`, and so on.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.tf.dtypes import limits
from mirrax.tf.tensors.host_tensors import HostTensor
from mirrax.tf.tensors.tensor import operands
from mirrax.tf.tensors.tensor_shape import TensorShape

OF_SHAPES = (
    "as_list",
    "assert_is_compatible_with",
    "dims",
    "is_compatible_with",
    "is_fully_defined",
    "ndims",
    "num_elements",
    "rank",
    "with_rank",
)
_KINDS = {
    "is_bool": jnp.bool_,
    "is_complex": jnp.complexfloating,
    "is_floating": jnp.floating,
    "is_integer": jnp.integer,
    "is_unsigned": jnp.unsignedinteger,
}
OF_DTYPES = ("as_numpy_dtype", "base_dtype", *_KINDS)
LIMITS = ("max", "min")
_DTYPES = ("bfloat16", "float16", "float32", "float64", "int32", "int64", "uint8")


class TensorAttributes(ast.NodeTransformer):
    """Rewrites such attributes.

    Args:
        prefix: What stands before the names `shape_of`, `dtype_of` and `Operand`.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        owner = node.value
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        if node.attr in OF_SHAPES:
            node.value = self._call("shape_of", owner)
        elif node.attr in OF_DTYPES or (node.attr in LIMITS and _is_dtype(owner)):
            node.value = self._call("dtype_of", owner)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.left, ast.List):
            node.left = self._call("Operand", node.left)
        if isinstance(node.right, ast.List):
            node.right = self._call("Operand", node.right)
        return node

    def _call(self, name: str, argument: ast.expr) -> ast.expr:
        made = ast.parse(f"{self._prefix}{name}(x)", mode="eval").body
        assert isinstance(made, ast.Call)
        made.args = [argument]
        for node in (made, *ast.walk(made.func)):
            ast.copy_location(node, argument)
        return made


def _is_dtype(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Attribute) and owner.attr in ("dtype", *_DTYPES)


def shape_of(shape: Any) -> Any:
    """Returns a tuple as a shape of TensorFlow, other values unchanged.

    >>> shape_of((2, 3)).as_list()
    [2, 3]
    """
    return TensorShape(shape) if type(shape) is tuple else shape


def dtype_of(dtype: Any) -> Any:
    """Returns a dtype with the attributes of TensorFlow's, other values unchanged.

    >>> dtype_of(np.dtype("float32")).is_floating
    True
    """
    return _DType(dtype) if isinstance(dtype, np.dtype) else dtype


@dataclasses.dataclass(frozen=True)
class _DType:
    base_dtype: np.dtype[Any]

    @property
    def as_numpy_dtype(self) -> type:
        return self.base_dtype.type

    def __getattr__(self, name: str) -> bool:
        if name not in _KINDS:
            raise AttributeError(f"A dtype has no `{name}`.", name=name)
        return jnp.issubdtype(self.base_dtype, _KINDS[name])

    @property
    def max(self) -> Any:
        return self.base_dtype.type(limits(self.base_dtype).max)

    @property
    def min(self) -> Any:
        return self.base_dtype.type(limits(self.base_dtype).min)


class Operand(list[Any]):
    """A list that is a tensor where the other operand is one.

    >>> (jnp.ones(2) * Operand([1.0, 2.0])).tolist(), Operand([0]) * 2
    ([1.0, 2.0], [0, 0])
    """


_TENSORS = jax.Array | HostTensor | mirrax.Variable


def _method(name: str, is_reflected: bool) -> Callable[[Operand, Any], Any]:
    own = f"__{'r' if is_reflected else ''}{name}__"
    of_lists = getattr(list, own, lambda *_: NotImplemented)

    def method(self: Operand, other: Any) -> Any:
        if not isinstance(other, _TENSORS):
            return of_lists(self, other)
        pair = (operands(self, other)[0], other)
        return getattr(operator, name)(*(reversed(pair) if is_reflected else pair))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(Operand, f"__{_name}__", _method(_name, False))
    setattr(Operand, f"__r{_name}__", _method(_name, True))
