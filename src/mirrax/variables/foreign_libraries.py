"""The libraries whose variables programs of ours can read and write.

A library is registered under the name of its module. Once the user has imported that
module, the library is connected: its integration is loaded and used.
"""

from __future__ import annotations

import abc
import contextlib
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax

from mirrax import trees
from mirrax.context import stack
from mirrax.trees import Tree
from mirrax.values.tensor_spec import TensorSpec
from mirrax.variables.variable import Variable

_T = TypeVar("_T")


class Library(abc.ABC):
    """How programs read and write the variables of one library."""

    @property
    @abc.abstractmethod
    def leaf_types(self) -> tuple[type, ...]:
        """The types whose objects are leaves of a structure, compared by identity."""

    @abc.abstractmethod
    def routed(self) -> contextlib.AbstractContextManager[Any]:
        """Routes reads and writes of the library's variables to Mirrax.

        Entered around every trace, eager `run` and gradient, also nested. Inside,
        `is_routed()` tells whether Mirrax handles a read or write.
        """

    @abc.abstractmethod
    def sources(self, value: Any) -> Sources | None:
        """Returns the variables in `value`, for gradients; None if it has none."""

    def refusal(self, value: Any) -> str | None:
        """Returns why `value` cannot be an argument of a function; None if it can."""
        return None

    def saved_arrays_of(self, value: Any) -> dict[str, SavedArray] | None:
        """Returns the arrays of a model or optimizer to save, by name; else None."""
        return None

    def early_arrays_of(self, value: Any) -> dict[str, SavedArray]:
        """Returns the saved arrays that an incomplete `value` has already, by name."""
        return {}

    def aliases_of(self, value: Any) -> dict[str, str]:
        """Returns other names of the saved arrays of `value`: alias -> name."""
        return {}

    def when_complete(self, value: Any, then: Callable[[], bool]) -> None:
        """Calls `then` whenever `value` may have new variables, until it is True."""
        return

    def exported_call(self, value: Any) -> ExportedCall | None:
        """Returns what a model computes at inference, and for which inputs."""
        return None

    def fingerprint(self, fn: Callable[..., Any], leaves: Sequence[Any]) -> Hashable:
        """Returns what else a program of a function depends on, besides variables."""
        return None


ExportedCall = tuple[Callable[..., Any], Sequence[TensorSpec]]
"""A function of a model's inputs, and their specs."""


class SavedArray(NamedTuple):
    """Gets and sets an array of another library's object, to save and restore it."""

    get: Callable[[], Any]
    set: Callable[[Any], None]


class Sources(NamedTuple):
    """The variables of one source of a gradient.

    Args:
        assemble: Returns their gradients in the structure that the library uses.
    """

    variables: Sequence[Variable]
    assemble: Callable[[Sequence[Any]], Tree]


class Counters:
    """Lets calls skip their fingerprints while nothing has changed.

    Attributes:
        fingerprints: How often the fingerprint of a function may have changed.
    """

    fingerprints = 0


counters = Counters()

_registered: dict[str, Callable[[], Library]] = {}
_connected: list[Library] = []
_NOTHING = contextlib.nullcontext()


def register_library(module: str, load: Callable[[], Library]) -> None:
    """Connects a library once its module has been imported."""
    _registered[module] = load


def connected() -> list[Library]:
    """Returns the connected libraries, after connecting those newly imported."""
    for module in _registered:
        if module in sys.modules:
            library = _registered.pop(module)()
            trees.add_leaf_types(library.leaf_types)
            _connected.append(library)
            return connected()
    return _connected


def routed() -> contextlib.AbstractContextManager[Any]:
    """Routes the variables of all libraries to Mirrax for the `with` block."""
    return _all_routed() if connected() else _NOTHING


@contextlib.contextmanager
def _all_routed() -> Iterator[None]:
    with contextlib.ExitStack() as entered:
        for library in _connected:
            entered.enter_context(library.routed())
        yield


def is_routed() -> bool:
    """Returns whether Mirrax handles a read or write here.

    It does in traces and gradients, and in an eager `run` on several replicas.
    """
    if stack.overlay() is not None:
        return True
    frame = stack.frame()
    return isinstance(frame, stack.Replica) and not frame.strategy.topology.is_single


def check_arguments(tree: Tree) -> None:
    """Raises if an object in a structure cannot be an argument."""
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
    """Returns the state of other libraries that a program of `fn` depends on."""
    found = [library.fingerprint(fn, leaves) for library in _connected]
    # A library that has nothing to say may be connected later than a program is made.
    return tuple([pair for pair in enumerate(found) if pair[1]])


def flatten_sources(tree: Tree) -> tuple[list[Any], Any]:
    """Returns the variables in a structure, of any library, and its structure."""
    connected()
    return jax.tree.flatten(
        tree, is_leaf=lambda x: trees.is_leaf(x) or sources_of(x) is not None
    )


def sources_of(value: Any) -> Sources | None:
    """Returns the variables in `value`; None if it is not a variable or model."""
    if isinstance(value, Variable):
        return Sources([value], lambda gradients: gradients[0])
    return _first(library.sources(value) for library in connected())


def saved_arrays_of(value: Any) -> dict[str, SavedArray] | None:
    """Returns the arrays to save of another library's object, by name; else None."""
    return _first(library.saved_arrays_of(value) for library in connected())


def early_arrays_of(value: Any) -> dict[str, SavedArray]:
    """Returns the saved arrays that an incomplete object has already, by name."""
    return {
        name: held
        for library in connected()
        for name, held in library.early_arrays_of(value).items()
    }


def exported_call(value: Any) -> ExportedCall | None:
    """Returns what another library's model computes at inference; else None."""
    return _first(library.exported_call(value) for library in connected())


def _first(found: Iterable[_T | None]) -> _T | None:
    return next((value for value in found if value is not None), None)


def aliases_of(value: Any) -> dict[str, str]:
    """Returns other names of the saved arrays of an object: alias -> name."""
    return {
        alias: name
        for library in connected()
        for alias, name in library.aliases_of(value).items()
    }


def when_complete(value: Any, then: Callable[[], bool]) -> None:
    """Calls `then` whenever `value` may have new variables, until it is True."""
    for library in connected():
        library.when_complete(value, then)


def assemble(sources: Sequence[Sources], gradients: Sequence[Any]) -> list[Tree]:
    """Returns the gradients of all variables in the structure of each source."""
    rest = iter(gradients)
    return [
        source.assemble([next(rest) for _ in source.variables]) for source in sources
    ]
