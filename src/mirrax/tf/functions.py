"""`tf.function` and `tf.GradientTape`."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any, NoReturn

import jax.numpy as jnp
from typing_extensions import override

import mirrax
from mirrax.tf.call_arguments import (
    CallArguments,
    taking_static_numbers,
    with_static_numbers,
)
from mirrax.tf.concrete_functions import BoundFunction, ConcreteFunction
from mirrax.tf.missing_names import replacement_of

__all__ = ["GradientTape", "UnconnectedGradients", "function"]


class UnconnectedGradients(enum.Enum):
    """The gradient of a source that the target does not depend on."""

    NONE = "none"
    ZERO = "zero"


class GradientTape(mirrax.GradientTape):
    """`tf.GradientTape`."""

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        return super().jacobian(target, sources, unconnected_gradients)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Returns the Jacobian of each row of a batch."""
        rows, others = target.shape[:1], source.shape[:1]
        if rows != others or not rows:
            raise ValueError(
                "Need first dimension of target shape and source shape to match. "
                f"Received: {tuple(target.shape)} and {tuple(source.shape)}."
            )
        whole = self.jacobian(target, source, unconnected_gradients)
        if whole is None:
            return None
        # Each row depends only on its own row: the other blocks are zero.
        own = jnp.diagonal(whole, axis1=0, axis2=len(target.shape))
        return jnp.moveaxis(own, -1, 0)

    def __getattr__(self, name: str) -> NoReturn:
        full = f"tf.GradientTape.{name}"
        advice = "" if name.startswith("_") else f" {replacement_of(full)}"
        raise AttributeError(f"`mirrax.tf` has no `{full}`.{advice}", name=name)


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: Any = True,
    jit_compile: Any = None,
    reduce_retracing: Any = False,
    **experimental: Any,
) -> Any:
    """`tf.function`: Python numbers are static arguments, as in TensorFlow.

    `jit_compile`, `reduce_retracing` and options that start with `experimental_` are
    ignored: each new shape causes a retrace.
    """
    unknown = [name for name in experimental if not name.startswith("experimental_")]
    if unknown:
        raise TypeError(
            f"`tf.function` has no option {unknown[0]!r}. Use `input_signature` or "
            "another of TensorFlow's options."
        )
    options = {"input_signature": input_signature, "autograph": bool(autograph)}
    if func is None:
        return functools.partial(function, **options)
    return func if isinstance(func, Function) else Function(func, **options)


class Function(mirrax.Function[..., Any]):
    """What `tf.function` returns.

    Args:
        func: The Python function.
        input_signature: The required specs of the arguments.
        autograph: Whether Python may branch on values of tensors.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        input_signature: Any = None,
        autograph: bool = True,
    ) -> None:
        if not callable(func):
            raise TypeError(f"`tf.function` takes a function. Received: {func!r}.")
        called = taking_static_numbers(func)
        super().__init__(called, input_signature, python_decisions=autograph)
        self.python_function = func
        self._call_arguments = CallArguments(func)

    @override
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    @override
    def fitted(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        args, kwargs = super().fitted(args, kwargs)
        if self.input_signature is not None:
            return args, kwargs
        args, kwargs = with_static_numbers(self._call_arguments.unify(args, kwargs))
        return args, kwargs

    def experimental_get_tracing_count(self) -> int:
        return self.trace_count

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the function for arguments of these shapes and dtypes.

        Args:
            args: A `TensorSpec` or an example for each array, and the other arguments;
                none with an `input_signature`.
            kwargs: The same, by keyword.
        """
        num_bound = int(self.is_method)
        if self.input_signature is not None and len(args) + len(kwargs) == num_bound:
            args = (*args, *self.input_signature)
        return ConcreteFunction(self, self.python_function, args, kwargs)
