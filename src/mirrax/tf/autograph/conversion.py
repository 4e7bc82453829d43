"""Which functions are converted, and how they are called."""

from __future__ import annotations

import contextvars
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from mirrax.tf.autograph import operators, python_builtins, transpiler
from mirrax.tf.autograph.ranges import tensor_range
from mirrax.tf.autograph.state import is_undefined
from mirrax.tf.functions.python_functions import inside_function
from mirrax.tf.tensors.creation import range as tf_range
from mirrax.tf.tensors.tensor_attributes import Operand, dtype_of, shape_of

_LIBRARIES = {
    "absl",
    "flax",
    "jax",
    "jaxlib",
    "keras",
    "malt",
    "matplotlib",
    "mirrax",
    "ml_dtypes",
    "numpy",
    "optax",
    "pandas",
    "scipy",
    "torch",
    "tqdm",
} | set(sys.stdlib_module_names)
_MARK = "autograph_info__"

# None outside of converted code.
_is_enabled: contextvars.ContextVar[bool | None] = contextvars.ContextVar(
    "mirrax_tf_autograph", default=None
)
_failures: dict[types.CodeType, str] = {}


def converted(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `func` with control flow that can be compiled, as far as possible."""
    if hasattr(func, _MARK):
        return func

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        token = _is_enabled.set(True)
        try:
            return converted_call(func, args, kwargs)
        finally:
            _is_enabled.reset(token)

    call.__name__ = getattr(func, "__name__", repr(func))
    return marked(call)


def unconverted(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `func` as a function that is not converted, nor what it calls."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        token = _is_enabled.set(False)
        try:
            return func(*args, **kwargs)
        finally:
            _is_enabled.reset(token)

    return marked(call)


def marked(func: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as one that needs no conversion."""
    target = func.__func__ if inspect.ismethod(func) else func
    setattr(target, _MARK, None)
    return func


def failure_of(func: Callable[..., Any]) -> str:
    """Returns why a function could not be converted; empty if it could."""
    function = function_of(func)[0]
    return "" if function is None else _failures.get(function.__code__, "")


def converted_call(
    func: Any,
    args: tuple[Any, ...],
    kwargs: Any,
    scope: Any = None,
    options: Any = None,
) -> Any:
    """Calls a function from converted code, converted if it is the user's."""
    kwargs = kwargs or {}
    if type(func) is functools.partial:
        merged = {**func.keywords, **kwargs}
        return converted_call(func.func, (*func.args, *args), merged, scope, options)
    if inspect.isbuiltin(func) or isinstance(func, type):
        return python_builtins.call(func, args, kwargs, scope)
    if func is tf_range:
        return tensor_range(*args, **kwargs)
    if _is_enabled.get() is False or hasattr(func, _MARK):
        return func(*args, **kwargs)
    function, bound = function_of(func)
    if function is None or _is_library(function):
        if _module_of(func).startswith("mirrax"):
            # Strategies, `tf.map_fn`, ... call functions of the user.
            args = tuple(map(_converted_argument, args))
            kwargs = {name: _converted_argument(arg) for name, arg in kwargs.items()}
        return func(*args, **kwargs)
    made = _transformed(function)
    return made(*bound, *args, **kwargs) if made else func(*args, **kwargs)


def function_of(func: Any) -> tuple[types.FunctionType | None, tuple[Any, ...]]:
    """Returns the Python function behind a callable, and its first argument."""
    bound: tuple[Any, ...] = ()
    if isinstance(func, types.MethodType):
        func, bound = func.__func__, (func.__self__,)
    elif callable(func) and not inspect.isfunction(func):
        func, bound = type(func).__call__, (func,)
    if not inspect.isfunction(func):
        return None, ()
    function: types.FunctionType = func
    is_plain = not function.__code__.co_flags & (
        inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    )
    return (function, bound) if is_plain else (None, ())


class FunctionScope:
    """The body of a converted function.

    Args:
        function_name: The name of the function.
        scope_name: The name of the scope in its code.
        options: Ignored: there is one way to convert.
    """

    def __init__(self, function_name: str, scope_name: str, options: Any) -> None:
        self.name = scope_name
        self.callopts = options

    def __enter__(self) -> FunctionScope:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ret(self, value: Any, did_return: Any) -> Any:
        return None if is_undefined(value) else value


def with_function_scope(
    thunk: Callable[[FunctionScope], Any], scope_name: str, options: Any
) -> Any:
    """The body of a converted lambda."""
    return thunk(FunctionScope("lambda", scope_name, options))


@functools.cache
def operators_namespace() -> types.SimpleNamespace:
    """Returns what converted code knows as `ag__`."""
    from malt import operators as malt_operators
    from malt.core import converter

    made = types.SimpleNamespace(**vars(malt_operators))
    vars(made).update({name: getattr(operators, name) for name in operators.__all__})
    vars(made).update(shape_of=shape_of, dtype_of=dtype_of, Operand=Operand)
    made.ConversionOptions = converter.ConversionOptions
    made.Feature = converter.Feature
    made.STD = converter.STANDARD_OPTIONS
    made.FunctionScope = FunctionScope
    made.with_function_scope = with_function_scope
    made.autograph_artifact = marked
    made.converted_call = converted_call
    made.caught = sys.exception
    return made


def _transformed(function: types.FunctionType) -> Callable[..., Any] | None:
    """Returns a function converted; None if it cannot be."""
    if function.__code__ in _failures:
        return None
    try:
        return transpiler.transformed(function, operators_namespace)
    except ImportError as error:
        reason = str(error)
    except Exception as error:
        reason = f"AutoGraph could not convert it: {str(error).strip()}"
    _failures[function.__code__] = reason
    return None


def _is_library(function: types.FunctionType) -> bool:
    # Not `__module__`, which decorators copy.
    module = function.__globals__.get("__name__") or ""
    return module != "__main__" and module.partition(".")[0] in _LIBRARIES


def _module_of(func: Any) -> str:
    return getattr(func, "__module__", None) or type(func).__module__


def _converted_argument(value: Any) -> Any:
    if not isinstance(value, types.FunctionType | types.MethodType):
        return value
    function, _ = function_of(value)
    is_users = function is not None and not _is_library(function)
    return converted(value) if is_users and inside_function() else value
