"""All ambient state: which strategy, replica, overlay and driver are in force."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import jax

Creator = Callable[..., Any]
"""A variable creator: called with `next_creator` and the arguments of the variable."""


@dataclasses.dataclass(frozen=True)
class CrossReplica:
    """Code that sees all replicas at once: in a scope, or in a merge function."""

    strategy: Any


@dataclasses.dataclass(frozen=True)
class Replica:
    """Code that sees one replica: inside `run`.

    Args:
        strategy: The strategy in force.
        context: The `ReplicaContext` that the user gets.
        index: Which local replica this is; None where one trace stands for all.
        is_alone: Whether it may go another way than the others, because its Python
            decides on values of tensors.
        pending: What it has written to variables of other libraries, in eager code.
    """

    strategy: Any
    context: Any
    index: int | None
    is_alone: bool = False
    pending: dict[Any, Any] = dataclasses.field(default_factory=dict, compare=False)


@dataclasses.dataclass(frozen=True)
class Update:
    """Code that changes one copy of each variable: inside `extended.update`.

    Args:
        strategy: The strategy in force.
        index: Which local copy is changed.
        pending: What was written so far: variable -> index -> value.
    """

    strategy: Any
    index: int
    pending: dict[Any, dict[int, Any]]


Frame = CrossReplica | Replica | Update

# Part of the key under which JAX keeps traced functions.
_trace_key = jax.make_user_context(None)
_serials = itertools.count()
_spent = 0

_frame: contextvars.ContextVar[Frame | None] = contextvars.ContextVar(
    "mirrax_frame", default=None
)
_installed: contextvars.ContextVar[Frame | None] = contextvars.ContextVar(
    "mirrax_installed", default=None
)
_overlay: contextvars.ContextVar[Any] = contextvars.ContextVar(
    "mirrax_overlay", default=None
)
_driver: contextvars.ContextVar[Any] = contextvars.ContextVar(
    "mirrax_driver", default=None
)
_creators: contextvars.ContextVar[tuple[Creator, ...]] = contextvars.ContextVar(
    "mirrax_creators", default=()
)
_decides: contextvars.ContextVar[bool | None] = contextvars.ContextVar(
    "mirrax_decides", default=None
)


# These four are asked on every call, so they are no functions of Python.

frame = _frame.get
"""Returns the innermost frame; None outside every strategy."""

overlay = _overlay.get
"""Returns the values that variables have inside the current trace, if any."""

driver = _driver.get
"""Returns the function whose Python runs now to drive compiled steps, if any."""

creators = _creators.get
"""Returns the variable creators in force, outermost first."""


decides = _decides.get
"""Returns whether Python may decide on values in the function that is traced here."""


class _Set:
    """Sets a context variable for a `with` block."""

    # Not a generator: every `run` passes here, and this takes a third of the time.
    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: contextvars.ContextVar[Any], value: Any) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def entered(new_frame: Frame | None) -> _Set:
    """Makes `new_frame` the innermost frame for the `with` block; None leaves all."""
    return _Set(_frame, new_frame)


class _Overlaid:
    """Sets the overlay for a `with` block, and makes JAX trace anew inside."""

    __slots__ = ("_key", "_overlay")

    def __init__(self, new_overlay: Any, place: Any) -> None:
        self._overlay = _Set(_overlay, new_overlay)
        self._key = _trace_key(next(_serials) if place is None else place)

    def __enter__(self) -> None:
        self._overlay.__enter__()
        self._key.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._key.__exit__(None, None, None)
        self._overlay.__exit__()


def overlaid(new_overlay: Any, place: Any = None) -> _Overlaid:
    """Makes variables read from and write to `new_overlay` for the `with` block.

    Args:
        new_overlay: The values of variables.
        place: What JAX has traced in another overlay with an equal place is not traced
            anew; without one everything is.
    """
    return _Overlaid(new_overlay, place)


def spend_traces() -> None:
    """Makes JAX trace anew in the next derivative.

    For when a function that JAX traces and keeps has read a variable of this one.
    """
    global _spent  # noqa: PLW0603
    _spent += 1


def derivative_place() -> Any:
    """Returns the place of a derivative of eager code. See `spend_traces`."""
    return "derivative", _spent, *_replica_place()


def tape_place() -> Any:
    """Returns the place of a tape in eager code, whose values programs ask for."""
    return "tape", *_replica_place()


def _replica_place() -> tuple[Any, ...]:
    current = _frame.get()
    if current is None:
        return ()
    index = current.index if isinstance(current, Replica) else None
    return id(current.strategy), index


def forget_traces() -> None:
    """Makes JAX trace functions anew that it has traced in this overlay.

    They may have read a variable that has another value now.
    """
    _trace_key(next(_serials)).__enter__()


def seen_from(*place: int) -> Any:
    """Makes JAX keep what it traces here apart from what it traces elsewhere.

    A function that is jitted may ask which replica it runs on, and of how many.
    """
    return _trace_key(place)


def driving(new_driver: Any) -> _Set:
    """Makes `run` compile what it is given, on behalf of `new_driver`."""
    return _Set(_driver, new_driver)


def deciding(may_decide: bool) -> _Set:
    """Makes `may_decide` what `decides` returns for the `with` block."""
    return _Set(_decides, may_decide)


def creating(new_creator: Creator) -> _Set:
    """Adds a variable creator for the `with` block."""
    return _Set(_creators, (*_creators.get(), new_creator))


def installed() -> Frame | None:
    """Returns the frame that `install` set for this thread."""
    return _installed.get()


def install(new_frame: Frame | None, new_creators: tuple[Creator, ...]) -> None:
    """Sets the frame and the creators of this thread until further notice."""
    _installed.set(new_frame)
    _frame.set(new_frame)
    _creators.set(new_creators)


_keepers: list[Callable[[], AbstractContextManager[None]]] = []
_NOTHING = contextlib.nullcontext()


def register(keeper: Callable[[], AbstractContextManager[None]]) -> None:
    """Lets `keeper()` put a library's notes away, and back at the end of its block."""
    _keepers.append(keeper)


def set_aside() -> AbstractContextManager[object]:
    """Puts away what libraries noted in this thread, for the `with` block."""
    if not _keepers:
        return _NOTHING
    entered = ExitStack()
    for keeper in _keepers:
        entered.enter_context(keeper())
    return entered
