"""`mirrax.function`: Python that is traced once and then runs as one program."""

from __future__ import annotations

import collections
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, ParamSpec, TypeAlias, TypeVar, overload

from typing_extensions import override

from mirrax.context import stack
from mirrax.run import function_identity
from mirrax.run.compiled.arguments import CallArguments
from mirrax.run.compiled.compiled_call import CompiledCall
from mirrax.run.compiled.donated_arguments import donated_numbers
from mirrax.run.compiled.program_cache import MAX_PROGRAMS
from mirrax.run.compiled.replica_function import ReplicaFunction
from mirrax.run.compiled.tracing import Traced, trace_program
from mirrax.trees import Tree
from mirrax.user_frames import shorten_traceback
from mirrax.values.input_signature import fitted_arguments, required_specs
from mirrax.variables import foreign_libraries

P = ParamSpec("P")
R = TypeVar("R")


@overload
def function(
    fn: Callable[P, R],
    *,
    input_signature: Sequence[Any] | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Function[P, R]: ...


@overload
def function(
    fn: None = None,
    *,
    input_signature: Sequence[Any] | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    fn: Callable[..., Any] | None = None,
    *,
    input_signature: Sequence[Any] | None = None,
    donate_argnums: int | Sequence[int] = (),
    **unknown: Any,
) -> Any:
    """Returns `fn` as a function that is traced once and then runs compiled.

    It is traced again for new shapes, dtypes and structures only. Arrays and numbers
    are inputs of the program; strings, booleans and other objects are part of it.
    Variables can be read and written inside.

    Give it to `strategy.run`, or put `run` inside it: either way a step is one program.

    Args:
        fn: The function; leave it out to use `@function(...)` with options.
        input_signature: Descriptions that the arguments must fit.
        donate_argnums: Positional arguments whose arrays may be overwritten.

    >>> import numpy as np
    >>> @function
    ... def double(x):
    ...     return 2 * x
    >>> double(np.float32(3))
    Array(6., dtype=float32)
    """
    if unknown:
        raise TypeError(
            "`mirrax.function` takes the options `input_signature` and "
            f"`donate_argnums`. Received: {', '.join(unknown)}. Strings, booleans and "
            "other objects are static without `static_argnums`; give a number that "
            "must be static with `functools.partial`."
        )
    options: dict[str, Any] = {
        "input_signature": input_signature,
        "donate_argnums": donate_argnums,
    }
    if fn is None:
        return functools.partial(function, **options)
    if isinstance(fn, Function):
        return fn
    return Function(fn, **options)


class Function(CompiledCall, Generic[P, R]):
    """A function with its compiled programs; made by `mirrax.function`.

    Args:
        fn: The Python function.
        input_signature: Descriptions that the arguments must fit.
        donate_argnums: Positional arguments whose arrays may be overwritten.

    >>> double = Function(lambda x: 2 * x)
    >>> float(double(1.0)), float(double(2.0)), double.trace_count
    (2.0, 4.0, 1)
    """

    runs_eagerly: ClassVar[bool] = False
    """Whether all functions run as plain Python."""

    def __init__(
        self,
        fn: Callable[P, R],
        input_signature: Sequence[Any] | None = None,
        donate_argnums: int | Sequence[int] = (),
    ) -> None:
        if not callable(fn):
            raise TypeError(f"`mirrax.function` takes a function. Received: {fn!r}.")
        functools.update_wrapper(self, fn)
        name = getattr(fn, "__name__", repr(fn))
        super().__init__(name, donated_numbers(donate_argnums))
        self.fn = fn
        self.input_signature = (
            None if input_signature is None else required_specs(input_signature)
        )
        # Whether the first argument is the object that it is called on.
        self.is_method = False
        # Read and written as one, because several threads may call.
        self.last_replica_function: tuple[Callable[[], Any], Callable[[], Any]] = (
            lambda: None,
            lambda: None,
        )
        self._inner = collections.OrderedDict[Any, AnyFunction]()
        self._over: weakref.WeakSet[ReplicaFunction] = weakref.WeakSet()
        # The eager `run` in which each replica defines its own copy of it, if any.
        frame = stack.frame()
        call = frame.call if isinstance(frame, stack.Replica) else None
        self._defined_in = None if call is None else weakref.ref(call)

    @property
    @override
    def trace_count(self) -> int:
        """How often the function was traced, also for the replicas of strategies."""
        over = sum(function.trace_count for function in list(self._over))
        return super().trace_count + over

    def __repr__(self) -> str:
        return f"<mirrax.function {self.name}, trace_count={self.trace_count}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        frame = stack.frame()
        if stack.overlay() is not None or Function.runs_eagerly:
            # Part of the trace that is under way, if any.
            return self.fn(*args, **kwargs)
        result: R
        if isinstance(frame, stack.Replica) and frame.context.num_replicas_in_sync > 1:
            if self._defined_in is not None and self._defined_in() is frame.call:
                # Each replica has a function of its own.
                own_args, own_kwargs = self.fitted(args, kwargs)
                return self.fn(*own_args, **own_kwargs)
            # The replicas of an eager `run` call the program together.
            result = frame.context.merge_call(_run_together, (self, args, kwargs))
        else:
            try:
                result = self.call(*self.fitted(args, kwargs))
            except Exception as error:
                shorten_traceback(error)
                raise
        return result

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Function[P, R]: ...

    @overload
    def __get__(
        self, instance: object, owner: type | None = None
    ) -> Callable[..., R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __set_name__(self, owner: type, name: str) -> None:
        self.is_method = True

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for a copy or a pickle, without compiled programs."""
        fresh = Function(self.fn)
        names = ("programs", "last_call", "last_replica_function", "_inner", "_over")
        return {**vars(self), **{name: vars(fresh)[name] for name in names}}

    def fitted(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns the arguments of a call as the program takes them, or raises.

        They must fit the input signature.
        """
        if self.input_signature is None:
            return args, kwargs
        return fitted_arguments(
            self.fn, self.input_signature, args, kwargs, self.is_method
        )

    def over(self, strategy: Any) -> ReplicaFunction:
        """Returns this function on every replica of `strategy`."""
        found: ReplicaFunction | None = strategy.functions.get(self)
        if found is None:
            found = ReplicaFunction(self, self._donated, strategy)
            strategy.functions[self] = found
            self._over.add(found)
        self.last_replica_function = (weakref.ref(strategy), weakref.ref(found))
        return found

    def compiled(self, fn: Callable[..., Any]) -> AnyFunction:
        """Returns `fn`, which this untraced function gives to `run`, as a function.

        If `fn` is redefined on each call, it is found again by its identity.
        """
        key = function_identity.identity(fn)
        found = None if key is None else self._inner.get(key)
        if found is None:
            found = type(self)(fn)
            self.remember(key, found)
        # An earlier definition may close over outdated objects.
        found.fn = self.traceable(fn)
        return found

    def traceable(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `fn` as it is traced; subclasses can convert it."""
        return fn

    def remember(self, key: Any, compiled: AnyFunction) -> None:
        """Caches `compiled` for functions with this identity."""
        if key is None:
            return
        self._inner[key] = compiled
        if len(self._inner) > MAX_PROGRAMS:
            self._inner.popitem(last=False)

    @override
    def _trace(self, given: CallArguments) -> Traced:
        def called(*args: Any, **kwargs: Any) -> Tree:
            result = self.fn(*args, **kwargs)
            for strategy in stack.overlay().strategies:
                strategy.outer_functions.add(self)
            return result

        return trace_program(called, given)

    @override
    def _call_python(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        return self.fn(*args, **kwargs)

    @override
    def falls_back_to_python(self, error: Exception) -> bool:
        return False

    @override
    def _run_untraced(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        """Runs the Python, with each `run` in it compiled."""
        with stack.running_untraced(self):
            return self.fn(*args, **kwargs)

    @override
    def fingerprint(self, leaves: list[Any]) -> Any:
        return foreign_libraries.fingerprint(self.fn, leaves)


def _run_together(strategy: Any, fn: Any, args: Any, kwargs: Any) -> Tree:
    return strategy.run(fn, args, kwargs)


AnyFunction: TypeAlias = Function[..., Any]
"""A function of any arguments."""
