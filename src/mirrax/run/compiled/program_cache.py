"""The compiled programs of one function; `compiled_call` makes the keys."""

from __future__ import annotations

import collections
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mirrax._jax.config import eager_fingerprint
from mirrax.context import stack
from mirrax.run.compiled.known_arguments import KnownArguments
from mirrax.run.compiled.program import Program
from mirrax.variables import foreign_libraries

_logger = logging.getLogger(__name__)

MAX_PROGRAMS = 128
"""How many programs a function keeps; the least recently used one goes first."""

# A function for training, evaluation and their last batches needs fewer.
_MANY_TRACES = 5
_UNKNOWN = object()


class ProgramCache:
    """The programs of one function, by the key of the calls that they fit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._built: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._latest: Any = None
        self._next_warning = _MANY_TRACES
        self.trace_count = 0
        self.seconds = 0.0

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
            started = time.perf_counter()
            program = self._built[key] = build(*args)
            self.seconds += time.perf_counter() - started
            if len(self._built) > MAX_PROGRAMS:
                self._built.popitem(last=False)
        elif program is not self._latest:
            self._built.move_to_end(key)
        self._latest = program
        return program

    def __iter__(self) -> Iterator[Program]:
        # Some are None, or plans of the uneven engine.
        found = [each for each in self._built.values() if isinstance(each, Program)]
        return iter(found)

    def drop(self, key: Any) -> None:
        """Forgets what was built for this key."""
        self._built.pop(key, None)

    def count_trace(self) -> None:
        """Counts one more trace; warns when there are many, and when they double."""
        self.trace_count += 1
        if self.trace_count >= self._next_warning:
            self._next_warning *= 2
            _logger.warning(
                "%s is compiled for %d kinds of arguments (shapes or objects), which "
                "took %.1f s before this one. If batches have many lengths, use a few: "
                "`padded_batch(..., few_lengths=True)` or `bucket_by_sequence_length`, "
                "with `drop_remainder=True`. Pass numbers that change as arrays.",
                self._name,
                self.trace_count,
                self.seconds,
            )


class LastCall:
    """The program of the last call, for calls with the same shapes and dtypes.

    Most calls are like the one before, and then need no key.

    Args:
        is_run: Whether it is the `run` of a strategy, which does the same inside and
            outside of a scope.
    """

    __slots__ = (
        "_arguments",
        "_fingerprints",
        "_is_run",
        "_num_libraries",
        "_num_modules",
        "_settings",
        "program",
    )

    def __init__(
        self, program: Program, arguments: KnownArguments, is_run: bool
    ) -> None:
        self.program = program
        self._arguments = arguments
        self._is_run = is_run
        self._settings = eager_fingerprint()
        self._fingerprints = foreign_libraries.counters.fingerprints
        self._num_libraries = len(foreign_libraries.connected())
        self._num_modules = len(sys.modules)

    def arrays_of(self, args: Sequence[Any]) -> list[Any] | None:
        """Returns the inputs of the program; None if the call may need another one."""
        if (
            eager_fingerprint() != self._settings
            or foreign_libraries.counters.fingerprints != self._fingerprints
            or (len(sys.modules) != self._num_modules and self._are_libraries_new())
            or not (self._is_run or stack.frame() is None)
        ):
            return None
        return self._arguments.arrays_of(args)

    def _are_libraries_new(self) -> bool:
        """Returns whether a library that takes part was imported since."""
        num_modules = len(sys.modules)
        if len(foreign_libraries.connected()) != self._num_libraries:
            return True
        self._num_modules = num_modules
        return False
