"""The libraries whose variables take part in programs.

A library is known by the name of its module. Once the user has imported that, it is
connected: its integration is loaded, and asked from then on.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from mirrax import trees
from mirrax.context import stack
from mirrax.trees import Tree
from mirrax.variables.foreign_variable import ForeignVariable
from mirrax.variables.variable import Variable


class Library(abc.ABC):
    """How the variables of one library take part."""

    @property
    @abc.abstractmethod
    def leaf_types(self) -> tuple[type, ...]:
        """The types whose objects are one leaf of a structure, known by identity."""

    @abc.abstractmethod
    def routed(self) -> contextlib.AbstractContextManager[Any]:
        """Lets reads and writes of the library's variables reach Mirrax.

        Entered around every trace, eager `run` and gradient, also inside one another.
        Inside, `takes_part()` says whether a read or write is ours to answer.
        """

    @abc.abstractmethod
    def sources(self, value: Any) -> Sources | None:
        """Returns what a gradient with respect to `value` means; None if not ours."""

    def refusal(self, value: Any) -> str | None:
        """Returns why `value` cannot be an argument of a function; None if it can."""
        return None

    def kept_of(self, value: Any) -> dict[str, Kept] | None:
        """Returns what a checkpoint keeps of a model, an optimizer, ..., by name.

        None if `value` is none of those.
        """
        return None

    def when_complete(self, value: Any, then: Callable[[], bool]) -> None:
        """Calls `then` once `value`, a model or so, has all its variables.

        It is called again, whenever variables may have come, until it returns True.
        """
        return

    fingerprint: Callable[[Callable[..., Any], Sequence[Any]], Hashable] | None = None
    """Returns what, besides variables, a program of a function depends on, if much."""


class Kept(NamedTuple):
    """An array of another library's object, to be saved and restored.

    Args:
        get: Returns the array.
        set: Takes another one of the same shape and dtype, in the same place.
    """

    get: Callable[[], Any]
    set: Callable[[Any], None]


class Sources:
    """What gradients are taken with respect to, in the form of a library.

    Args:
        variables: The variables.
        assemble: Puts their gradients into the form that the library's users expect.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        assemble: Callable[[Sequence[Any]], Tree],
    ) -> None:
        self.variables = variables
        self.assemble = assemble


_expected: dict[str, Callable[[], Library]] = {}
_connected: list[Library] = []
_fingerprints: list[Callable[[Callable[..., Any], Sequence[Any]], Hashable]] = []
_NOTHING = contextlib.nullcontext()


def expect(module: str, load: Callable[[], Library]) -> None:
    """Connects a library as soon as its module has been imported by someone."""
    _expected[module] = load


def connect() -> list[Library]:
    """Returns the libraries that take part, after connecting those newly imported."""
    for module in _expected:
        if module in sys.modules:
            library = _expected.pop(module)()
            trees.add_leaf_types(library.leaf_types)
            _connected.append(library)
            if library.fingerprint is not None:
                _fingerprints.append(library.fingerprint)
            return connect()
    return _connected


def routed() -> contextlib.AbstractContextManager[Any]:
    """Lets the variables of all libraries take part for the `with` block."""
    return _all_routed(_connected) if connect() else _NOTHING


def routing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Lets the variables of all libraries take part while `fn` is called."""

    @functools.wraps(fn)
    def routed_fn(*args: Any, **kwargs: Any) -> Any:
        with routed():
            return fn(*args, **kwargs)

    return routed_fn


@contextlib.contextmanager
def _all_routed(libraries: Sequence[Library]) -> Iterator[None]:
    with contextlib.ExitStack() as entered:
        for library in libraries:
            entered.enter_context(library.routed())
        yield


def takes_part() -> bool:
    """Returns whether a read or write at this place goes through Mirrax.

    It does in traces and gradients, and in an eager `run` on several replicas.
    """
    if stack.overlay() is not None:
        return True
    frame = stack.frame()
    return isinstance(frame, stack.Replica) and not frame.strategy.topology.is_single


def check_arguments(tree: Tree) -> None:
    """Raises if something in a structure cannot be an argument."""
    if not _connected:
        return
    if isinstance(tree, tuple | list):
        for item in tree:
            check_arguments(item)
    elif isinstance(tree, dict):
        check_arguments(list(tree.values()))
    else:
        for library in _connected:
            refusal = library.refusal(tree)
            if refusal is not None:
                raise TypeError(refusal)


def fingerprint(fn: Callable[..., Any], leaves: Sequence[Any]) -> Hashable:
    """Returns what of other libraries' objects a program of `fn` depends on."""
    if not _fingerprints:
        return None
    return tuple([fingerprint(fn, leaves) for fingerprint in _fingerprints])


def flatten_sources(tree: Tree) -> tuple[list[Any], Any]:
    """Returns the variables in a structure, of whatever library, and its structure."""
    connect()
    return jax.tree.flatten(
        tree, is_leaf=lambda x: trees.is_leaf(x) or sources_of(x) is not None
    )


def sources_of(value: Any) -> Sources | None:
    """Returns what a gradient by `value` means; None if it is no variable."""
    if isinstance(value, Variable):
        return Sources([value], lambda gradients: gradients[0])
    for library in connect():
        found = library.sources(value)
        if found is not None:
            return found
    return None


def kept_of(value: Any) -> dict[str, Kept] | None:
    """Returns what is kept of another library's object, by name; None for others."""
    for library in connect():
        found = library.kept_of(value)
        if found is not None:
            return found
    return None


def when_complete(value: Any, then: Callable[[], bool]) -> None:
    """Calls `then` whenever `value` may have got variables, until it returns True."""
    for library in connect():
        library.when_complete(value, then)


def assemble(sources: Sequence[Sources], gradients: Sequence[Any]) -> list[Tree]:
    """Returns gradients, one for each variable in turn, in the form of each source."""
    rest = iter(gradients)
    return [
        source.assemble([next(rest) for _ in source.variables]) for source in sources
    ]


__all__ = [
    "ForeignVariable",
    "Kept",
    "Library",
    "Sources",
    "assemble",
    "check_arguments",
    "connect",
    "expect",
    "fingerprint",
    "flatten_sources",
    "kept_of",
    "routed",
    "routing",
    "sources_of",
    "takes_part",
    "when_complete",
]
