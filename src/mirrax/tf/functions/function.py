"""`tf.function` and `tf.GradientTape`."""

from __future__ import annotations

import enum
import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

import mirrax
from mirrax.errors import TracedInitialValue
from mirrax.tf import nest
from mirrax.tf.autograph import conversion, fallback
from mirrax.tf.errors import NotCompilable, OutOfRangeError
from mirrax.tf.functions.call_arguments import (
    CallArguments,
    StaticNumber,
    taking_static_numbers,
    with_static_numbers,
)
from mirrax.tf.functions.concrete_functions import BoundFunction, ConcreteFunction
from mirrax.tf.functions.python_functions import inside_function
from mirrax.tf.namespaces.missing_names import replacement_of
from mirrax.tf.tensors.open_shapes import OpenShape
from mirrax.tf.tensors.tensor import conjugate, is_string_tensor, is_traced, tensor

__all__ = ["GradientTape", "UnconnectedGradients", "function"]


_LEAK = (
    "[mirrax] What a branch or a loop over tensors computes can leave it only in a "
    "variable of the function. In place of a list that it appends to, use a "
    "`tf.TensorArray`."
)


class UnconnectedGradients(enum.Enum):
    """The gradient of a source that the target does not depend on."""

    NONE = "none"
    ZERO = "zero"


class GradientTape(mirrax.GradientTape):
    """`tf.GradientTape`."""

    def watch(self, tensor: Any) -> None:
        for leaf in nest.flatten(tensor):
            if isinstance(leaf, np.ndarray | bool | int | float | str):
                raise ValueError(
                    "A tape watches tensors and variables. Received: "
                    f"{type(leaf).__name__}, not tf.Tensor or tf.Variable. Convert it "
                    "with `tf.convert_to_tensor`, and use the result."
                )
        super().watch(tensor)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        # Those of JAX are the complex conjugates of TensorFlow's.
        weights = jax.tree.map(conjugate, output_gradients)
        found = super().gradient(target, sources, weights, unconnected_gradients)
        return jax.tree.map(conjugate, found)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        found = super().jacobian(target, sources, unconnected_gradients)
        return jax.tree.map(conjugate, found)

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
        if rows != others or min(target.ndim, source.ndim) < 2:
            raise ValueError(
                "Need first dimension of target and source to agree, and both of rank "
                f"2 at least. Received: {tuple(target.shape)} and "
                f"{tuple(source.shape)}."
            )
        whole = self.jacobian(target, source, UnconnectedGradients.ZERO)
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
        autograph: Whether its control flow on tensors is converted.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        input_signature: Any = None,
        autograph: bool = True,
    ) -> None:
        if not callable(func):
            raise TypeError(f"`tf.function` takes a function. Received: {func!r}.")
        for leaf in nest.flatten(input_signature):
            if isinstance(leaf, np.dtype | type):
                raise TypeError(
                    "`input_signature` has a `tf.TensorSpec` for each argument. "
                    f"Received: {leaf!r}. Write tf.TensorSpec([None], {leaf!r})."
                )
        self.python_function = func
        self._autograph = autograph
        super().__init__(self.traceable(func), input_signature)
        self._signatures: set[Any] = set()
        self._created: set[Any] = set()
        self._call_arguments = CallArguments(func)
        self._traced: list[tuple[Any, tuple[Any, dict[str, Any]]]] = []
        self._concrete = weakref.WeakValueDictionary[Any, ConcreteFunction]()

    @override
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except jax.errors.UnexpectedTracerError as error:
            error.add_note(_LEAK)
            raise
        except TracedInitialValue as error:
            if inside_function():
                raise
            return self.creating(args, error)(*args, **kwargs)
        except TypeError:
            if not any(map(is_string_tensor, nest.flatten((args, kwargs)))):
                self._call_arguments.check(args, kwargs)
                raise
            # Strings are on the host, and so is a function of them.
            return self.fn(*args, **kwargs)
        except StopIteration as error:
            # As `next(iterator)` at the end of the data in a graph of TensorFlow.
            raise OutOfRangeError("The dataset has no more elements.") from error

    def creating(
        self, args: Sequence[Any], error: TracedInitialValue
    ) -> Callable[..., Any]:
        """Returns what runs a first call that creates variables of computed values.

        Args:
            args: The arguments.
            error: What the trace of the call failed with.
        """
        key = tuple(id(x) for x in nest.flatten(args) if not hasattr(x, "dtype"))
        if key in self._created:
            raise ValueError(
                "tf.function only supports singleton tf.Variables created on the first "
                f"call. Received: {self.name}, which creates another one on every "
                "call. Keep it, as in `if self.v is None: self.v = tf.Variable(...)`, "
                "or create it outside."
            ) from error
        self._created.add(key)
        return self.fn

    @override
    def traceable(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        body = conversion.converted(fn) if self._autograph else fn
        body = taking_static_numbers(body)

        @functools.wraps(body)
        def call(*args: Any, **kwargs: Any) -> Any:
            leaves = nest.flatten((args, kwargs))
            if is_traced(leaves):
                self._signatures.add(tuple(str(getattr(x, "aval", x)) for x in leaves))
            self._note_call(args, kwargs)
            return _as_tensors(body(*args, **kwargs))

        call.__name__ = getattr(fn, "__name__", repr(fn))
        return call

    def _note_call(self, args: Any, kwargs: dict[str, Any]) -> None:
        given = (args[int(self.is_method) :], kwargs)
        leaves = nest.flatten(given)
        if not all(map(_is_plain_or_traced, leaves)):
            return
        # The sizes of a function that is being exported are symbols.
        sizes = {size for x in leaves for size in getattr(x, "shape", ())}
        if all(isinstance(size, int) for size in sizes):
            self._keep_call(args, nest.map_structure(_described, given))

    def _keep_call(self, args: Any, call: Any) -> None:
        owner = weakref.ref(args[0]) if self.is_method else lambda: None
        if all(call != known for o, known in self._traced if o() is owner()):
            self._traced.append((owner, call))

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

    @override
    def falls_back_to_python(self, error: Exception) -> bool:
        if not (self._autograph or isinstance(error, NotCompilable)):
            return False
        if not fallback.needs_python(error):
            return False
        reason = conversion.failure_of(self.python_function)
        fallback.warn(self.python_function, error, reason)
        return True

    def experimental_get_tracing_count(self) -> int:
        # Inside another function it is traced as part of that one.
        return self.trace_count or len(self._signatures)

    def traced_calls(self, instance: Any = None) -> list[tuple[Any, dict[str, Any]]]:
        """Returns the arguments that it was traced with: specs and Python values.

        Args:
            instance: The object, if it is a method.
        """
        return [call for owner, call in self._traced if owner() is instance]

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the function for arguments of these shapes and dtypes.

        Args:
            args: A `TensorSpec` or an example for each array, and the other arguments;
                none with an `input_signature`.
            kwargs: The same, by keyword.
        """
        bound, args = args[: int(self.is_method)], args[int(self.is_method) :]
        if self.input_signature is not None and not args and not kwargs:
            args = tuple(self.input_signature)
        made = ConcreteFunction(self, self.python_function, bound, args, kwargs)
        made = self._concrete.setdefault(made.key, made)
        call = nest.map_structure(_spec_of, (args, kwargs))
        if self.input_signature is None and all(
            map(_is_exportable, nest.flatten(call))
        ):
            # `tf.saved_model.save` saves what it is asked for, too.
            self._keep_call(bound, call)
        return made


def _is_plain_or_traced(leaf: Any) -> bool:
    return isinstance(leaf, jax.core.Tracer | StaticNumber | bool | str | None)


def _described(leaf: Any) -> Any:
    if isinstance(leaf, jax.core.Tracer):
        return mirrax.TensorSpec(leaf.shape, leaf.dtype)
    return leaf.value if isinstance(leaf, StaticNumber) else leaf


def _spec_of(leaf: Any) -> Any:
    has_shape = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    return mirrax.TensorSpec(leaf.shape, leaf.dtype) if has_shape else leaf


def _is_exportable(leaf: Any) -> bool:
    if isinstance(leaf, mirrax.TensorSpec):
        return leaf.dtype != object
    return isinstance(leaf, bool | int | float | str | None)


def _as_tensors(result: Any) -> Any:
    """Returns a function's result with tensors for its variables and numbers."""
    # A trace gives tensors for numbers by itself, and knows their values until then.
    plain = () if inside_function() else (bool, int, float, str, bytes)

    def value_of(leaf: Any) -> Any:
        if isinstance(leaf, (*plain, OpenShape)):
            return tensor(leaf)
        if isinstance(leaf, mirrax.Variable):
            return leaf.read_value()
        return leaf.value if _is_variable(leaf) else leaf

    def is_leaf(value: Any) -> bool:
        return _is_variable(value) or isinstance(value, mirrax.DistributedValues)

    return jax.tree.map(value_of, result, is_leaf=is_leaf)


def _is_variable(value: Any) -> bool:
    keras = sys.modules.get("keras")
    kinds = (mirrax.Variable,) if keras is None else (mirrax.Variable, keras.Variable)
    return isinstance(value, kinds)
