"""What functions of tensors have in common: conversions, and the argument `name`."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Container
from typing import Any

from mirrax.tf.errors import InvalidArgumentError, InvalidOperands
from mirrax.tf.namespaces.exports import export
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import operands, tensor

Array = Any
"""Annotates a parameter that an operation gets as a tensor."""

Values = Any
"""As `Array`, for the first parameter; of a ragged tensor, it gets the values."""

_CONVERTED = ("Array", "Array | None", "Values")

# TensorFlow raises one kind of error where JAX raises two.
_ERRORS = {ValueError: InvalidArgumentError, TypeError: InvalidOperands}


def operations(module: dict[str, Any], private: Container[str] = ()) -> None:
    """Exports the public names of a module, and makes its functions operations.

    Args:
        module: All names of the module, `globals()`.
        private: As for `export`.
    """
    for name in export(module, private):
        value = module[name]
        is_function = isinstance(value, types.FunctionType)
        if is_function and value.__module__ == module["__name__"]:
            module[name] = operation(value)


@functools.cache
def operation(function: types.FunctionType) -> Callable[..., Any]:
    """Returns a function that converts its arguments, as their annotations say.

    Those of `Array | None` may be None. It also takes `name`, which has no effect.
    """
    code = function.__code__
    is_fixed = not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if not is_fixed or code.co_kwonlyargcount:
        return function
    # Annotations are texts: all modules postpone their evaluation.
    names = code.co_varnames[: code.co_argcount]
    kinds = {name: function.__annotations__.get(name) for name in names}
    first = next(iter(kinds), "")
    num_accepted = len(kinds) + ("name" not in kinds)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kinds.get(first) == "Values":
            given = args[0] if args else kwargs.get(first)
            if isinstance(given, RaggedTensor):
                rest = {name: kwargs[name] for name in kwargs if name != first}
                return given.map(lambda values: call(values, *args[1:], **rest))
        values = [_converted(kind, x) for kind, x in zip(kinds.values(), args)]
        named = {
            name: _converted(kinds.get(name), x)
            for name, x in kwargs.items()
            if name != "name"
        }
        try:
            return function(*values, *args[num_accepted:], **named)
        except (TypeError, ValueError) as error:
            if type(error) not in _ERRORS or _is_own(error):
                raise
            tensorflows = _ERRORS[type(error)]
            raise tensorflows(str(error)).with_traceback(
                error.__traceback__
            ) from error.__cause__

    return call


def _is_own(error: BaseException) -> bool:
    """Returns whether Mirrax raised an error itself, or Python for wrong arguments."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    names = {} if trace is None else trace.tb_frame.f_globals
    return str(names.get("__name__")).startswith("mirrax.")


def _converted(kind: Any, value: Any) -> Any:
    is_left_out = value is None and kind == "Array | None"
    return value if kind not in _CONVERTED or is_left_out else tensor(value)


def of_one(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns a function of an array as TensorFlow's `f(x, name=None)`."""

    def call(x: Values) -> Any:
        return function(x)

    call.__name__ = getattr(function, "__name__", "call")
    return operation(call)


def of_two(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Returns a function of two arrays as TensorFlow's `f(x, y, name=None)`."""

    def call(x: Any, y: Any) -> Any:
        if isinstance(x, RaggedTensor):
            return x.map(call, y)
        return function(*operands(x, y))

    call.__name__ = getattr(function, "__name__", "call")
    return operation(call)
