"""A worker's steps, for errors and in a small file that outlives a killed worker.

The launcher makes the file and names it in the environment of its first worker.
"""

from __future__ import annotations

import dataclasses
import functools
import mmap
import os
import pathlib
import struct
from collections.abc import Callable

VARIABLE = "MIRRAX_STEP_RECORD"
"""The environment variable with the path of the file."""

_FORMAT = struct.Struct("<qqq")
_UNKNOWN = -1

_last_step: int | None = None


@dataclasses.dataclass(frozen=True)
class AttemptSteps:
    """The steps of one attempt to run a job.

    Args:
        first: The step it started from; None if it has not started.
        done: The last step that it completed; None if it has not started.
        is_preempted: Whether all workers saved the last step and ended on request.
    """

    first: int | None = None
    done: int | None = None
    is_preempted: bool = False

    @property
    def has_advanced(self) -> bool:
        """Whether a step was completed."""
        return self.done is not None and self.done != self.first


def create(path: pathlib.Path) -> None:
    """Creates the file of one attempt, without steps."""
    path.write_bytes(_FORMAT.pack(_UNKNOWN, _UNKNOWN, 0))


def read(path: pathlib.Path) -> AttemptSteps:
    """Returns the steps of an attempt so far."""
    first, done, is_preempted = _FORMAT.unpack(path.read_bytes())
    if first == _UNKNOWN:
        return AttemptSteps(is_preempted=bool(is_preempted))
    return AttemptSteps(first, done, bool(is_preempted))


def last_step() -> int | None:
    """Returns the last step that this process has reported."""
    return _last_step


def report_start(step: int) -> None:
    """Tells the launcher from which step this process starts."""
    global _last_step  # noqa: PLW0603
    _last_step = step
    _update(lambda first, done: (step, step, 0))


def report_step(step: int) -> None:
    """Tells the launcher that a step is completed.

    A lower one is ignored: a second manager may count the best checkpoints only.
    """
    global _last_step  # noqa: PLW0603
    _last_step = step if _last_step is None else max(step, _last_step)
    _update(
        lambda first, done: (
            step - 1 if first == _UNKNOWN else first,
            max(step, done),
            0,
        )
    )


def report_preemption() -> None:
    """Tells the launcher that this process has saved, and ends on request."""
    _update(lambda first, done: (first, done, 1))


def _update(change: Callable[[int, int], tuple[int, int, int]]) -> None:
    file = _open_own()
    if file is not None:
        first, done, _ = _FORMAT.unpack_from(file)
        # `pack_into` would write zeros first, which a killed worker would leave.
        file[:] = _FORMAT.pack(*change(first, done))


@functools.cache
def _open_own() -> mmap.mmap | None:
    # Programs that this one starts, such as an evaluation, do no steps of the job.
    path = os.environ.pop(VARIABLE, "")
    if not path:
        return None
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), _FORMAT.size)
