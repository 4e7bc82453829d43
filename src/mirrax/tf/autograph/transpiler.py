"""The source transformation: `if`, `while`, `for`, ... become calls of operators.

It is that of TensorFlow's AutoGraph, from the package `diastatic-malt`.
"""

from __future__ import annotations
import __future__

import ast
import functools
import textwrap
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from mirrax.tf.tensors.tensor_attributes import TensorAttributes

_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag,
    __future__.all_feature_names,
    0,
)
_lock = threading.RLock()
_codes: weakref.WeakKeyDictionary[types.CodeType, types.CodeType] = (
    weakref.WeakKeyDictionary()
)


def transformed(
    function: types.FunctionType, operators: Callable[[], Any]
) -> types.FunctionType:
    """Returns a function whose control flow calls `operators`; raises if it cannot."""
    with _lock:
        code = _codes.get(function.__code__)
        if code is None:
            code = _codes[function.__code__] = _factory_code(function)
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    )
    closure = tuple(cells[name] for name in code.co_freevars)
    factory = types.FunctionType(code, function.__globals__, closure=closure)
    made: types.FunctionType = factory(operators())
    made.__code__ = made.__code__.replace(co_name=function.__code__.co_name)
    made.__defaults__ = function.__defaults__
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def source_of(function: types.FunctionType) -> str:
    """Returns the transformed source."""
    return _transformed_source(function)[0]


def _transformed_source(
    function: types.FunctionType,
) -> tuple[str, str, Mapping[int, int]]:
    """Returns the transformed source, the name in it, and the line of each line."""
    try:
        from malt.core import converter
        from malt.impl import api
        from malt.pyct import origin_info, parser, transpiler
    except ImportError as error:
        raise ImportError("AutoGraph needs `pip install mirrax[tf]`.") from error

    options = converter.ConversionOptions(
        recursive=True,
        user_requested=True,
        optional_features=converter.Feature.BUILTIN_FUNCTIONS,
    )
    context = converter.ProgramContext(options)

    class Transpiler(api.PyToPy):  # type: ignore[misc]
        def transform_ast(self, node: ast.AST, ctx: Any) -> Any:
            node = TensorAttributes("ag__.").visit(node)
            return super().transform_ast(_Simplified(function).visit(node), ctx)

    # Not that of the base class, which writes a file for each function.
    transform = transpiler.GenericTranspiler.transform_function
    node, about = transform(Transpiler(), function, context)
    name = about.info.name
    if isinstance(node, ast.Lambda):
        node = ast.Assign(targets=[ast.Name(name, ctx=ast.Store())], value=node)
    else:
        node.name = name
    source = parser.unparse((node,), include_encoding_marker=False)
    origins = origin_info.create_source_map((node,), source, "")
    lines = {place.lineno: origin.loc.lineno for place, origin in origins.items()}
    return source, name, lines


def _factory_code(function: types.FunctionType) -> types.CodeType:
    """Returns the code of a function that takes the operators and makes another.

    The lines of that one are those of the original, for tracebacks and debuggers.
    """
    source, name, lines = _transformed_source(function)
    free = "".join(f"    {name} = None\n" for name in function.__code__.co_freevars)
    tree = ast.parse(
        f"def outer():\n{free}    def factory(ag__):\n"
        f"{textwrap.indent(source, ' ' * 8)}\n"
        f"        return {name}\n    return factory\n"
    )
    offset = len(function.__code__.co_freevars) + 2
    first = function.__code__.co_firstlineno
    known = [first]
    for line in range(1, source.count("\n") + 3):
        known.append(lines.get(line, known[-1]))
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias):
            place = min(max(node.lineno - offset, 0), len(known) - 1)
            node.lineno = node.end_lineno = known[place]
            node.col_offset = node.end_col_offset = 0
    code = compile(
        tree,
        function.__code__.co_filename,
        "exec",
        flags=function.__code__.co_flags & _FUTURE,
        dont_inherit=True,
    )
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    return namespace["outer"]().__code__


class _Simplified(ast.NodeTransformer):
    """Rewrites what the library does not know.

    Args:
        function: The function.
    """

    def __init__(self, function: types.FunctionType) -> None:
        self._owner = function.__qualname__.rpartition(".")[0].rpartition(".")[2]

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Gives private names of a class the form that Python gives them."""
        name = node.attr
        is_private = name.startswith("__") and not name.endswith("__")
        if is_private and self._owner.isidentifier():
            node.attr = f"_{self._owner.lstrip('_')}{name}"
        return self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Assigns what is caught in a statement of its own."""
        if node.name is not None:
            node.body.insert(0, _statement(f"{node.name} = ag__.caught()", node))
            node.name = None
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Calls the operator, with any message."""
        made = _statement("ag__.assert_stmt(True, lambda: '')", node)
        made.value.args[0] = node.test
        if node.msg is not None:
            made.value.args[1].body = node.msg
        return self.generic_visit(made)


def _statement(source: str, place: ast.AST) -> Any:
    (made,) = ast.parse(source).body
    for node in ast.walk(made):
        ast.copy_location(node, place)
    return made
