"""The programs of one function, each kept for the calls that it fits."""

from __future__ import annotations

import collections
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from mirrax._jax.config import eager_fingerprint
from mirrax.context import stack
from mirrax.run.compiled.arguments import Slot, known_arrays
from mirrax.run.compiled.program import Program
from mirrax.variables import foreign_libraries

_logger = logging.getLogger(__name__)

MAX_PROGRAMS = 128
"""How many programs a function keeps; the least recently used one goes first."""

_MANY_TRACES = 16
_UNKNOWN = object()


class ProgramCache:
    """The programs of one function, by the key of the calls that they fit.

    Args:
        name: The name of the function, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._built: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._latest: Any = None
        self.trace_count = 0

    def get(self, key: Any, build: Callable[..., Any], *args: Any) -> Any:
        """Returns `build(*args)`, or what it returned for this key before."""
        try:
            program = self._built.get(key, _UNKNOWN)
        except TypeError as error:
            raise TypeError(
                "The arguments of a function are arrays, numbers and hashable objects. "
                f"Received: {error}. Pass it as an array, or close over it."
            ) from error
        if program is _UNKNOWN:
            program = self._built[key] = build(*args)
            if len(self._built) > MAX_PROGRAMS:
                self._built.popitem(last=False)
        elif program is not self._latest:
            self._built.move_to_end(key)
        self._latest = program
        return program

    def drop(self, key: Any) -> None:
        """Forgets what was built for this key."""
        self._built.pop(key, None)

    def count_trace(self) -> None:
        """Counts one more trace, and warns once there are many."""
        self.trace_count += 1
        if self.trace_count == _MANY_TRACES:
            _logger.warning(
                "%s was traced %d times, for different shapes or objects. Each trace "
                "costs a compilation: give arguments of few shapes.",
                self._name,
                _MANY_TRACES,
            )


class LastCall:
    """The program of the last call, for the next one if it has the same kind.

    Most calls have the kind of the one before, and then need no key.

    Args:
        program: The program.
        slots: How it took its arguments.
        is_run: Whether it is the `run` of a strategy, which does the same inside and
            outside of a scope.
    """

    __slots__ = (
        "_is_run",
        "_keys",
        "_num_libraries",
        "_num_modules",
        "_settings",
        "program",
    )

    def __init__(self, program: Program, slots: Sequence[Slot], is_run: bool) -> None:
        self.program = program
        self._keys = [key for key, _, _ in slots]
        self._is_run = is_run
        self._settings = eager_fingerprint()
        self._num_libraries = len(foreign_libraries.connected())
        self._num_modules = len(sys.modules)

    def arrays_of(self, args: Sequence[Any]) -> list[Any] | None:
        """Returns the inputs of the program for a call; None if it may be another."""
        if (
            len(args) != len(self._keys)
            or eager_fingerprint() != self._settings
            or (len(sys.modules) != self._num_modules and self._are_libraries_new())
            or not (self._is_run or stack.frame() is None)
        ):
            return None
        return known_arrays(args, self._keys) if args else []

    def _are_libraries_new(self) -> bool:
        """Returns whether a library that takes part was imported since."""
        num_modules = len(sys.modules)
        if len(foreign_libraries.connected()) != self._num_libraries:
            return True
        self._num_modules = num_modules
        return False
