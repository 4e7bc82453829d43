"""The compiled programs of one function; `compiled_call` makes the keys."""

from __future__ import annotations

import collections
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from mirrax.run.compiled.program import Program

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
        # None stands for calls without a program.
        return iter([each for each in self._built.values() if each is not None])

    def drop(self, key: Any) -> None:
        """Forgets what was built for this key, unless another thread has."""
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
