"""Flax NNX: modules, optimizers and metrics take part in `run` as they are.

NNX has no place where reads and writes of variables could be intercepted, so during a
trace or an eager `run` two slots of `nnx.Variable` are replaced by descriptors that ask
us first. Outside, everything is as Flax made it. This is the only module with private
names of Flax; all were tested with flax 0.12.8.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from mirrax.context import stack
from mirrax.integrations import closures
from mirrax.options import VariableAggregation
from mirrax.variables import libraries
from mirrax.variables.foreign import ForeignVariable

try:
    import flax
    from flax import nnx
    from flax.nnx.tracers import TraceState, current_jax_trace

    _raw = nnx.Variable.__dict__["_raw_value"]
    _state = nnx.Variable.__dict__["_trace_state"]
    _update_average = nnx.metrics.Average.__dict__["update"]
    _draw = nnx.RngStream.__dict__["__call__"]
    _check_context = nnx.Pytree.__dict__["_check_valid_context"]
    _setattr = nnx.Pytree.__dict__["__setattr__"]
    _OBJECTS = (nnx.Module, nnx.Optimizer, nnx.Metric, nnx.Rngs, nnx.RngStream)
    with jax.ensure_compile_time_eval():
        _OUTSIDE = current_jax_trace()
except (ImportError, AttributeError, KeyError) as error:
    raise ImportError(
        "Mirrax was tested with flax 0.12.8 and does not know this version. Received: "
        f"{error!r}. Install 'flax>=0.12.8,<0.13', or import it after the work that "
        "Mirrax does."
    ) from error

_AGGREGATIONS = {
    nnx.BatchStat: VariableAggregation.MEAN,
}

_borrowed: contextvars.ContextVar[list[Any]] = contextvars.ContextVar("mirrax_borrowed")
_is_adding: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "mirrax_is_adding", default=False
)


class _StandIn(ForeignVariable):
    """What stands for an `nnx.Variable`."""

    def __init__(self, variable: Any) -> None:
        kind = type(variable)
        super().__init__(f"nnx.{kind.__name__}", _aggregation_of(variable))
        self._variable = variable

    @override
    def get_array(self) -> jax.Array:
        return _raw.__get__(self._variable)  # type: ignore[no-any-return]

    @override
    def set_array(self, array: jax.Array) -> None:
        _raw.__set__(self._variable, array)

    @override
    def adds_changes(self) -> bool:
        return _is_adding.get()


class _Key(_StandIn):
    """What stands for the key of a random stream.

    Flax writes keys back that it only read. Keys cannot be combined, so all a replica
    can write is a key that is the same everywhere.
    """

    @override
    def _write(self, change: Any, given: Any) -> Any:
        overlay = stack.overlay()
        if overlay is not None:
            overlay.write(self, given)
        elif not _is_same_key(self.value, given):
            raise ValueError(
                "The key of a random stream cannot be replaced inside an eager `run`. "
                "Received: another key. Use `nnx.reseed` outside, or a `@function`."
            )
        return given


def _is_same_key(one: jax.Array, other: jax.Array) -> bool:
    data = jax.random.key_data(one), jax.random.key_data(other)
    return bool(np.array_equal(*data))


class _Adopted(TraceState):
    """The trace state of a variable that takes part; Flax asks it before a write."""

    __slots__ = ("stand_in",)

    def __init__(self, stand_in: _StandIn, before: TraceState) -> None:
        self._jax_trace = before.jax_trace
        self.stand_in = stand_in

    def is_valid(self) -> bool:
        overlay = stack.overlay()
        return bool(super().is_valid() if overlay is None else overlay.is_current)

    def __reduce__(self) -> Any:
        return TraceState, ()


class _Local(TraceState):
    """The trace state of a variable that an eager replica made for itself."""

    __slots__ = ("_context",)

    def __init__(self, context: Any) -> None:
        self._jax_trace = current_jax_trace()
        self._context = weakref.ref(context)

    def is_here(self) -> bool:
        frame = stack.frame()
        return isinstance(frame, stack.Replica) and frame.context is self._context()

    def __reduce__(self) -> Any:
        return TraceState, ()


def _stand_in(variable: Any) -> _StandIn | None:
    """Returns what stands for `variable` at this place; None where nothing does."""
    if not libraries.takes_part():
        return None
    state = _state.__get__(variable)
    if type(state) is _Adopted:
        return state.stand_in
    if type(state) is _Local and state.is_here():
        return None
    # What was made inside a trace belongs to it.
    return _adopt(variable, state) if state.jax_trace == _OUTSIDE else None


def _adopt(variable: Any, state: TraceState) -> _StandIn | None:
    try:
        value = _raw.__get__(variable)
    except AttributeError:
        return None
    if isinstance(value, np.ndarray | np.generic):
        with jax.ensure_compile_time_eval():
            value = jnp.asarray(value)
        _raw.__set__(variable, value)
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return None
    stand_in = (_Key if isinstance(variable, nnx.RngKey) else _StandIn)(variable)
    _state.__set__(variable, _Adopted(stand_in, state))
    return stand_in


def _aggregation_of(variable: Any) -> VariableAggregation:
    """Returns the aggregation that the user named, or that suits the kind."""
    named = variable.get_metadata().get("aggregation")
    if named is not None:
        return VariableAggregation[getattr(named, "name", str(named)).upper()]
    return next(
        (how for kind, how in _AGGREGATIONS.items() if isinstance(variable, kind)),
        VariableAggregation.NONE,
    )


class _RawValue:
    """Takes the place of the slot that holds the value of a variable."""

    def __get__(self, variable: Any, owner: type | None = None) -> Any:
        if variable is None:
            return self
        stand_in = _stand_in(variable)
        return _raw.__get__(variable) if stand_in is None else stand_in.value

    def __set__(self, variable: Any, value: Any) -> None:
        stand_in = _stand_in(variable)
        if stand_in is not None:
            stand_in.assign(value)
            return
        frame = stack.frame()
        if stack.overlay() is None and isinstance(frame, stack.Replica):
            _state.__set__(variable, _Local(frame.context))
        _raw.__set__(variable, value)


class _TraceStateSlot:
    """Takes the place of the slot that says where a variable may be written."""

    def __get__(self, variable: Any, owner: type | None = None) -> Any:
        if variable is None:
            return self
        _stand_in(variable)
        return _state.__get__(variable)

    def __set__(self, variable: Any, value: Any) -> None:
        _state.__set__(variable, value)


def _update_average_of_all(self: Any, *args: Any, **kwargs: Any) -> None:
    """Replaces `Average.update`: what replicas add up is added up over all of them."""
    token = _is_adding.set(True)
    try:
        _update_average(self, *args, **kwargs)
    finally:
        _is_adding.reset(token)


def _check_valid_context(self: Any, error_message: Callable[[], str]) -> None:
    """Replaces the check of modules: those made outside may be used in our traces."""
    overlay = stack.overlay()
    if overlay is None or not _is_from_outside(self):
        _check_context(self, error_message)
    elif not overlay.is_current:
        raise flax.errors.TraceContextError(error_message())
    else:
        # Flax builds modules anew in place, and so makes them belong to the trace.
        _borrowed.get().append((self, self._pytree__state))


def _is_from_outside(module: Any) -> bool:
    return bool(module._pytree__state.trace_state.jax_trace == _OUTSIDE)


def _draw_for_replica(self: Any) -> jax.Array:
    """Replaces the call of a random stream: each replica draws keys of its own."""
    key: jax.Array = _draw(self)
    frame = stack.frame()
    if not isinstance(frame, stack.Replica) or frame.strategy.topology.is_single:
        return key
    return jax.random.fold_in(key, frame.context.replica_id_in_sync_group)


_HOOKS = (
    (nnx.RngStream, "__call__", _draw_for_replica, _draw),
    (nnx.Pytree, "_check_valid_context", _check_valid_context, _check_context),
    (nnx.Variable, "_raw_value", _RawValue(), _raw),
    (nnx.Variable, "_trace_state", _TraceStateSlot(), _state),
    (nnx.metrics.Average, "update", _update_average_of_all, _update_average),
)


class _Routing:
    """Counts who needs the hooks, in all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0

    def enter(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                for owner, name, hook, _ in _HOOKS:
                    setattr(owner, name, hook)

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for owner, name, _, original in _HOOKS:
                    setattr(owner, name, original)


_routing = _Routing()


class FlaxLibrary(libraries.Library):
    """Flax NNX, as a library whose variables take part."""

    def __init__(self) -> None:
        self._graphs = _Graphs()

    @property
    @override
    def leaf_types(self) -> tuple[type, ...]:
        return _OBJECTS

    @override
    @contextlib.contextmanager
    def routed(self) -> Iterator[None]:
        borrowed: list[Any] = []
        token = _borrowed.set(borrowed)
        _routing.enter()
        try:
            yield
        finally:
            _routing.leave()
            _borrowed.reset(token)
            for module, state in borrowed:
                object.__setattr__(module, "_pytree__state", state)

    @override
    def sources(self, value: Any) -> libraries.Sources | None:
        if isinstance(value, nnx.Variable):
            return libraries.Sources([_require(value)], lambda gradients: gradients[0])
        if isinstance(value, nnx.Module):
            value = nnx.state(value, nnx.Param)
        if not isinstance(value, nnx.State):
            return None
        variables, structure = jax.tree.flatten(
            value, is_leaf=lambda leaf: isinstance(leaf, nnx.Variable)
        )

        def assemble(gradients: Sequence[Any]) -> Any:
            pairs = zip(variables, gradients, strict=True)
            return jax.tree.unflatten(structure, [v.copy(g) for v, g in pairs])

        return libraries.Sources([_require(v) for v in variables], assemble)

    @override
    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, nnx.Variable):
            return None
        return (
            "A variable of Flax by itself cannot be an argument: JAX makes a copy of "
            f"it, and what is written to the copy is lost. Received: {value!r}. Pass "
            "the module that it belongs to, close over it, or pass its value, "
            "`variable[...]`."
        )

    @override
    def kept_of(self, value: Any) -> dict[str, libraries.Kept] | None:
        if isinstance(value, nnx.Variable):
            return {"": _kept(value)}
        if not isinstance(value, _OBJECTS):
            return None
        state = nnx.to_flat_state(nnx.state(value))
        return {
            "/".join(str(part) for part in path): _kept(variable)
            for path, variable in state
        }

    @override
    def fingerprint(self, fn: Callable[..., Any], leaves: Sequence[Any]) -> Hashable:
        own = [self._graphs.of(leaf) for leaf in leaves if isinstance(leaf, _OBJECTS)]
        return (self._graphs.of_closure(fn), *own)


def _kept(variable: Any) -> libraries.Kept:
    stand_in = _require(variable)
    return libraries.Kept(stand_in.get_array, stand_in.set_array)


def _require(variable: Any) -> _StandIn:
    state = _state.__get__(variable)
    stand_in = state.stand_in if type(state) is _Adopted else _adopt(variable, state)
    if stand_in is None:
        raise TypeError(
            "Gradients are taken by variables that hold an array and were made outside "
            f"the function. Received: {variable!r}. Inside, use `nnx.value_and_grad`."
        )
    return stand_in


class _Graphs:
    """What programs depend on besides variables: the static parts of modules.

    `model.eval()` changes no variable, but the program. Describing a module takes
    longer than a step, so it is done again only after an attribute of one of them was
    set.
    """

    def __init__(self) -> None:
        self._version = 0
        self._members: set[int] = set()
        self._known: dict[int, tuple[Any, int, int]] = {}
        # A number stands for a description, which takes long to hash.
        self._numbers: dict[Hashable, int] = {}
        self._closures: weakref.WeakKeyDictionary[Any, tuple[int, Hashable]] = (
            weakref.WeakKeyDictionary()
        )
        nnx.Pytree.__setattr__ = self._noticing_setattr()  # type: ignore[method-assign]

    def of(self, root: Any) -> int:
        """Returns a number for the static part of a module, an optimizer, ..."""
        known = self._known.get(id(root))
        if known is not None and known[1] == self._version and known[0]() is root:
            return known[2]
        number = id(root)
        reference = weakref.ref(root, lambda _: self._known.pop(number, None))
        described = self._numbers.setdefault(nnx.graphdef(root), len(self._numbers))
        self._members.update(id(node) for _, node in nnx.iter_graph(root))
        self._known[number] = reference, self._version, described
        return described

    def of_closure(self, fn: Callable[..., Any]) -> Hashable:
        """Returns the static parts of the modules that a function closes over."""
        known = self._closures.get(fn)
        if known is None or known[0] != self._version:
            roots = closures.find_objects(fn, _OBJECTS)
            known = self._version, tuple(self.of(root) for root in roots)
            self._closures[fn] = known
        return known[1]

    def _noticing_setattr(self) -> Callable[..., None]:
        def __setattr__(module: Any, name: str, value: Any) -> None:  # noqa: N807
            if stack.overlay() is not None and _is_from_outside(module):
                _refuse_data(module, name, value)
            _setattr(module, name, value)
            if id(module) in self._members:
                self._version += 1

        return __setattr__


def _refuse_data(module: Any, name: str, value: Any) -> None:
    is_traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(value))
    if is_traced or nnx.is_data(value):
        raise flax.errors.TraceContextError(
            "What a traced function computes cannot be an attribute of a module "
            f"that was made outside. Received: {type(module).__name__}.{name} of type "
            f"{type(value).__name__}. Return the value, or make an `nnx.Variable` for "
            "it before, in `__init__`."
        )


__all__ = ["FlaxLibrary", "flax"]
