"""Python's own functions, called by converted code: some take traced tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf import nest
from mirrax.tf.autograph.ranges import tensor_range
from mirrax.tf.tensors.tensor import is_traced


def call(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], scope: Any
) -> Any:
    """Returns what a builtin function or class returns.

    Args:
        func: The function.
        args: Its arguments.
        kwargs: Those that are given by name.
        scope: The scope of the converted function that calls it.
    """
    for_tensors = _FOR_TENSORS.get(func)
    if for_tensors is not None and is_traced([*args]):
        return for_tensors(*args, **kwargs)
    in_frame = _IN_FRAME.get(func)
    if in_frame is not None and not (func is super and args):
        # These ask for the variables of the function that calls them.
        from malt.operators import py_builtins

        return getattr(py_builtins, in_frame)(
            *(() if func in (locals, globals) else (func, args)), scope
        )
    return func(*args, **kwargs)


class _Symbol:
    """What `print` shows of a tensor while a function is traced, as in TensorFlow."""

    def __init__(self, tensor: Any) -> None:
        self._spec = f"shape={tuple(tensor.shape)}", f"dtype={tensor.dtype}"

    def __str__(self) -> str:
        return f"Tensor({', '.join(self._spec)})"

    def __repr__(self) -> str:
        return f"<tf.Tensor {' '.join(self._spec)}>"


def _print(*objects: Any, **kwargs: Any) -> None:
    """Prints once, when the function is traced; `tf.print` prints in each call."""

    def shown(leaf: Any) -> Any:
        return _Symbol(leaf) if isinstance(leaf, jax.core.Tracer) else leaf

    builtins.print(*nest.map_structure(shown, objects), **kwargs)


_FOR_TENSORS: dict[Any, Callable[..., Any]] = {
    builtins.print: _print,
    builtins.range: tensor_range,
    builtins.int: lambda x: jnp.asarray(x, jnp.int32),
    builtins.float: lambda x: jnp.asarray(x, jnp.float32),
}
_IN_FRAME: dict[Any, str] = {
    builtins.eval: "eval_in_original_context",
    builtins.super: "super_in_original_context",
    builtins.locals: "locals_in_original_context",
    builtins.globals: "globals_in_original_context",
}
