"""All ambient state: strategy, replica, overlay, untraced function, creators."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from typing import Any

import jax

Creator = Callable[..., Any]
"""A variable creator: called with `next_creator` and the arguments of the variable."""


@dataclasses.dataclass(frozen=True)
class CrossReplica:
    """Code that sees all replicas at once: in a scope, or in a merge function."""

    strategy: Any


# Not frozen: such records take three times as long to make, in every `run`.
@dataclasses.dataclass(slots=True)
class Replica:
    """Code that sees one replica: inside `run`.

    Args:
        index: Which local replica this is; None where one trace stands for all.
        pending: Its writes to variables of other libraries, in eager code.
        call: The function that all replicas call, and its arguments.
        is_in_piece: Whether it is one of several, in a piece of an accumulated step.
    """

    strategy: Any
    context: Any
    index: int | None
    pending: dict[Any, Any] = dataclasses.field(default_factory=dict, compare=False)
    call: Any = dataclasses.field(default=None, compare=False)
    is_in_piece: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Update:
    """Code that updates one copy of each variable: inside `extended.update`.

    Args:
        index: Which local copy is updated.
        pending: The writes so far: variable -> index -> value.
    """

    strategy: Any
    index: int
    pending: dict[Any, dict[int, Any]]


Frame = CrossReplica | Replica | Update

# Part of the key of JAX's cache of traced functions.
_trace_key = jax.make_user_context(None)
_serials = itertools.count()
_num_invalidations = 0

_frame = ContextVar[Frame | None]("mirrax_frame", default=None)
_installed = ContextVar[Frame | None]("mirrax_installed", default=None)
_overlay = ContextVar[Any]("mirrax_overlay", default=None)
_untraced_function = ContextVar[Any]("mirrax_untraced_function", default=None)
_creators = ContextVar[tuple[Creator, ...]]("mirrax_creators", default=())
_summary_state = ContextVar[Any]("mirrax_summary_state", default=None)


# Bound methods instead of functions: they are called on every step.

frame = _frame.get
"""Returns the innermost frame; None outside every strategy."""

installed = _installed.get
"""Returns the frame that `install` set for this thread."""

overlay = _overlay.get
"""Returns the overlay of variable values in the current trace, if any."""

untraced_function = _untraced_function.get
"""Returns the `mirrax.function` that runs as Python now, as it is not traceable."""

creators = _creators.get
"""Returns the variable creators in force, outermost first."""

summary_state = _summary_state.get
"""Returns the default writer and step of summaries, if any."""

set_summary_state = _summary_state.set
"""Sets the default writer and step of summaries until further notice."""


class _Set:
    """Sets a context variable for a `with` block."""

    # A generator would take three times as long, on every `run`.
    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def entered(new_frame: Frame | None) -> _Set:
    """Sets the innermost frame for the `with` block; None leaves every strategy."""
    return _Set(_frame, new_frame)


class overlaid:  # noqa: N801 - used as a function
    """Makes variables read from and write to `new_overlay` for the `with` block.

    Args:
        trace_key: JAX reuses its traces among overlays with an equal key. Without a
            key it retraces everything.
    """

    __slots__ = ("_key", "_overlay")

    def __init__(self, new_overlay: Any, trace_key: Any = None) -> None:
        self._overlay = _Set(_overlay, new_overlay)
        self._key = _trace_key(next(_serials) if trace_key is None else trace_key)

    def __enter__(self) -> None:
        self._overlay.__enter__()
        self._key.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._key.__exit__(None, None, None)
        self._overlay.__exit__()


def invalidate_derivative_traces() -> None:
    """Makes JAX retrace in the next derivative.

    Call it when a function that JAX caches has read a variable of this derivative.
    """
    global _num_invalidations  # noqa: PLW0603
    _num_invalidations += 1


def derivative_trace_key() -> Any:
    """Returns the trace key of a derivative in eager code."""
    return "derivative", _num_invalidations, *_replica_key()


def tape_trace_key() -> Any:
    """Returns the trace key of a tape in eager code."""
    return "tape", *_replica_key()


def _replica_key() -> tuple[Any, ...]:
    current = _frame.get()
    if current is None:
        return ()
    index = current.index if isinstance(current, Replica) else None
    return id(current.strategy), index


def invalidate_traces() -> None:
    """Makes JAX retrace what it traced in this overlay, as a variable was written."""
    _trace_key(next(_serials)).__enter__()


def separate_traces(*key: int) -> Any:
    """Makes JAX cache its traces in the `with` block under `key`.

    A jitted function may ask which replica it runs on, and of how many.
    """
    return _trace_key(key)


@contextlib.contextmanager
def separate_traces_inside(*key: int) -> Iterator[None]:
    """Does the same inside of an overlay, whose own key stays part of the key.

    Jitted functions have read its variables, which the block may write.
    """
    own = (_trace_key.value, key)
    with _trace_key(own):
        yield
        is_outdated = _trace_key.value != own
    if is_outdated:
        invalidate_traces()


def running_untraced(function: Any) -> _Set:
    """Makes `run` compile what it is given, on behalf of the untraced `function`."""
    return _Set(_untraced_function, function)


def summarizing(new_state: Any) -> _Set:
    """Sets the default writer and step of summaries for the `with` block."""
    return _Set(_summary_state, new_state)


def creating(new_creator: Creator) -> _Set:
    """Adds a variable creator for the `with` block."""
    return _Set(_creators, (*_creators.get(), new_creator))


def install(new_frame: Frame | None, new_creators: tuple[Creator, ...]) -> None:
    """Sets the frame and the creators of this thread until further notice."""
    _installed.set(new_frame)
    _frame.set(new_frame)
    _creators.set(new_creators)


_library_state: list[Callable[[], AbstractContextManager[None]]] = []
_NOTHING = contextlib.nullcontext()


def register_library_state(suspend: Callable[[], AbstractContextManager[None]]) -> None:
    """Registers a block that clears a library's thread state, and restores it."""
    _library_state.append(suspend)


def suspend_library_state() -> AbstractContextManager[object]:
    """Clears the thread state of registered libraries for the `with` block."""
    if not _library_state:
        return _NOTHING
    entered = ExitStack()
    for suspend in _library_state:
        entered.enter_context(suspend())
    return entered
