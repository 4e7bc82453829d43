"""Walks through, evaluates and rebuilds jaxprs; makes operations for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from mirrax._jax.jaxpr_types import AbstractRef
from mirrax._jax.jaxpr_types import ClosedJaxpr as ClosedJaxpr
from mirrax._jax.jaxpr_types import Jaxpr as Jaxpr
from mirrax._jax.jaxpr_types import JaxprEqn as JaxprEqn
from mirrax._jax.jaxpr_types import Literal as Literal
from mirrax._jax.jaxpr_types import Primitive as Primitive
from mirrax._jax.jaxpr_types import Var as Var
from mirrax.user_frames import find_user_frame

CALLBACKS = frozenset(
    ["pure_callback", "io_callback", "debug_callback", "buffer_callback", "debug_print"]
)
"""The operations that call Python while a program runs."""


def source_of(equation: JaxprEqn) -> str:
    """Returns where in the user's program an equation was traced."""
    traceback: Any = equation.source_info.traceback
    frames = () if traceback is None else zip(*traceback.raw_frames(), strict=True)
    found = find_user_frame((frame[0].co_filename, frame) for frame in frames)
    if found is None:
        return "an unknown place"
    code, offset = found
    line = traceback.code_addr2line(code, offset)
    return f"{code.co_filename}:{line} ({code.co_qualname})"


_CALLS = {
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "remat2",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
}

Values = dict[Var, Any]


def all_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yields the equations of a jaxpr and of all jaxprs inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from all_equations(inner)


def inner_jaxprs(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """Yields the jaxprs among the parameters of an equation."""
    for closed in inner_programs(equation):
        yield closed.jaxpr


def inner_programs(equation: JaxprEqn) -> Iterator[ClosedJaxpr]:
    """Yields the closed jaxprs among the parameters of an equation."""
    for parameter in equation.params.values():
        for item in parameter if isinstance(parameter, tuple | list) else (parameter,):
            if isinstance(item, ClosedJaxpr):
                yield item
            elif isinstance(item, Jaxpr):
                yield ClosedJaxpr(item, ())


def opaque_parameters(equation: JaxprEqn) -> Iterator[Any]:
    """Yields the parameters whose text does not say what they do.

    These are functions and objects of the user, in primitives of the user.
    """
    # JAX makes their rules anew in each trace, and they have had their effect.
    if equation.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
        return
    for leaf in jax.tree.leaves(list(equation.params.values())):
        is_named = callable(leaf) and hasattr(leaf, "__module__")
        module = (leaf if is_named else type(leaf)).__module__ or ""
        if module.partition(".")[0] not in _KNOWN_BY_TEXT:
            yield leaf


_KNOWN_BY_TEXT = {"builtins", "jax", "jaxlib", "ml_dtypes", "numpy"}


def is_reference(atom: Any) -> bool:
    """Returns whether a variable of a jaxpr stands for a `jax.Ref`, not for a value."""
    return isinstance(atom.aval, AbstractRef)


def changed_params(
    equation: JaxprEqn, change: Callable[[ClosedJaxpr], ClosedJaxpr]
) -> dict[str, Any]:
    """Returns the parameters of an equation with the jaxprs in them changed."""
    return {name: _changed(item, change) for name, item in equation.params.items()}


def _changed(item: Any, change: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Any:
    if isinstance(item, ClosedJaxpr):
        return change(item)
    if isinstance(item, Jaxpr):
        return change(ClosedJaxpr(item, ())).jaxpr
    # Not a named tuple, such as the dimension numbers of a convolution.
    if type(item) is tuple:
        return tuple(_changed(inner, change) for inner in item)
    return item


def called_jaxpr(equation: JaxprEqn) -> ClosedJaxpr | None:
    """Returns the jaxpr that a jit, remat or similar call runs, else None."""
    if equation.primitive.name not in _CALLS:
        return None
    parameters = equation.params
    called = parameters.get("jaxpr") or parameters.get("call_jaxpr")
    if isinstance(called, Jaxpr):
        called = ClosedJaxpr(called, ())
    if called is None or len(called.jaxpr.invars) != len(equation.invars):
        return None
    return called


def initial_values(closed: ClosedJaxpr, inputs: Any) -> Values:
    """Returns the values of the constants and inputs of a jaxpr."""
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(closed.jaxpr.invars, inputs, strict=True))
    return values


def read(values: Values, atom: Any) -> Any:
    """Returns the value of a variable or literal of a jaxpr."""
    return values[atom] if isinstance(atom, Var) else atom.val


def bind(equation: JaxprEqn, inputs: list[Any], params: dict[str, Any]) -> list[Any]:
    """Returns the outputs of an equation for these inputs and parameters."""
    with equation.ctx.manager:
        outputs = equation.primitive.bind(
            *inputs, **equation.primitive.get_bind_params(params)
        )
    return list(outputs) if equation.primitive.multiple_results else [outputs]


Rule = Callable[[JaxprEqn, list[Any]], Sequence[Any] | None]
"""Returns the outputs of an equation; None to compute them as usual."""


def evaluate(
    closed: ClosedJaxpr,
    inputs: Sequence[Any],
    rule: Rule,
    read_atom: Callable[[Values, Any], Any] = read,
) -> list[Any]:
    """Returns the outputs of a program, with `rule` for some of its equations."""
    values = initial_values(closed, inputs)
    for equation in closed.jaxpr.eqns:
        given = [read_atom(values, atom) for atom in equation.invars]
        outputs = rule(equation, given)
        if outputs is None:
            outputs = bind(equation, given, equation.params)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read_atom(values, atom) for atom in closed.jaxpr.outvars]


def retraced(
    closed: ClosedJaxpr,
    rule: Rule,
    axis_env: Sequence[tuple[str, int]],
    read_atom: Callable[[Values, Any], Any] = read,
) -> ClosedJaxpr:
    """Returns a program, traced again with `rule` for some of its equations."""

    def evaluated(*inputs: Any) -> list[Any]:
        return evaluate(closed, inputs, rule, read_atom)

    return jax.make_jaxpr(evaluated, axis_env=list(axis_env))(*stand_ins(closed.jaxpr))


def inlined(
    closed: ClosedJaxpr,
    axis_env: Sequence[tuple[str, int]],
    is_opened: Callable[[JaxprEqn], bool] = lambda _: False,
) -> ClosedJaxpr:
    """Returns a program with its calls inlined: those of jit, remat and similar.

    Without the remats of a derivative, where XLA computes values again instead of
    storing them.

    Args:
        is_opened: Whether to inline such a remat, too.
    """

    def inline(equation: JaxprEqn, given: list[Any]) -> list[Any] | None:
        called = called_jaxpr(equation)
        is_kept = equation.params.get("differentiated") and not is_opened(equation)
        return None if called is None or is_kept else evaluate(called, given, inline)

    return retraced(closed, inline, axis_env)


def rebuilt(
    like: Jaxpr,
    constants: Sequence[Var],
    inputs: Sequence[Var],
    outputs: Sequence[Any],
    equations: Sequence[JaxprEqn],
) -> Jaxpr:
    """Returns a jaxpr of these equations, with the debug info of `like`."""
    info = like.debug_info
    return Jaxpr(
        list(constants),
        list(inputs),
        list(outputs),
        list(equations),
        frozenset().union(*(equation.effects for equation in equations)),
        debug_info=type(info)(info.traced_for, info.func_src_info, None, None),
    )


def kind_of(atom: Any) -> tuple[tuple[int, ...], Any]:
    """Returns shape and dtype of a variable or literal of a jaxpr."""
    return atom.aval.shape, atom.aval.dtype


def stand_ins(jaxpr: Jaxpr) -> list[jax.ShapeDtypeStruct]:
    """Returns the shapes and dtypes of the inputs of a jaxpr, to trace it again."""
    return [stand_in_for(var.aval) for var in jaxpr.invars]


def stand_in_for(aval: Any) -> jax.ShapeDtypeStruct:
    """Returns shape and dtype of an abstract value."""
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def identity_primitive(name: str) -> Primitive:
    """Returns an operation that returns its operand, and costs nothing in a program."""
    primitive = Primitive(name)
    primitive.def_impl(jnp.copy)
    primitive.def_abstract_eval(lambda aval: aval)
    mlir.register_lowering(primitive, lambda _, value: [value])
    ad.deflinear2(primitive, lambda cotangent, _: [cotangent])
    batching.primitive_batchers[primitive] = lambda values, dims: (
        primitive.bind(*values),
        dims[0],
    )
    return primitive
