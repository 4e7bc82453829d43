"""A pool of greenlets for each thread.

Creating a greenlet takes ten microseconds, mostly to allocate its stack.
"""

from __future__ import annotations

import contextvars
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import greenlet

_MAX_IDLE = 64
_ENDED = object()


@dataclasses.dataclass(slots=True)
class Finished:
    """A task returned this."""

    result: Any


@dataclasses.dataclass(slots=True)
class Failed:
    """A task raised this."""

    error: BaseException


class Cancelled(greenlet.GreenletExit):
    """Ends a task from outside."""


class TaskGreenlet:
    """Runs tasks that can pause: `pause` inside the task, `resume` outside."""

    def __init__(self) -> None:
        self._greenlet = greenlet.greenlet(self._work)
        self._outcome: Finished | Failed | None = None
        # A greenlet keeps the arguments of its first switch, so that one has none.
        self._greenlet.switch()

    def start(self, task: Callable[[], Any]) -> Any:
        """Runs `task` in a copy of this context until it pauses or ends.

        Returns what it paused with, or `Finished` or `Failed`.
        """
        self._greenlet.gr_context = contextvars.copy_context()
        return self.resume(task)

    def resume(self, value: Any) -> Any:
        """Lets the task go on: `pause` returns `value` in it."""
        self._greenlet.parent = greenlet.getcurrent()
        return self._take_outcome(self._greenlet.switch(value))

    def cancel(self) -> Any:
        """Lets the task go on: `pause` raises `Cancelled` in it."""
        self._greenlet.parent = greenlet.getcurrent()
        return self._take_outcome(self._greenlet.throw(Cancelled))

    def pause(self, value: Any) -> Any:
        """Gives `value` to whoever started or resumed the task, and waits."""
        parent = self._greenlet.parent
        assert parent is not None
        return parent.switch(value)

    def _work(self) -> None:
        while True:
            task = self.pause(_ENDED)
            try:
                self._outcome = Finished(task())
            except BaseException as error:
                self._outcome = Failed(error)
            del task

    def _take_outcome(self, paused: Any) -> Any:
        """Returns what the task paused with, or its outcome, which is then released."""
        if paused is not _ENDED:
            return paused
        outcome, self._outcome = self._outcome, None
        # The context refers to the strategy, among others.
        self._greenlet.gr_context = None
        return outcome


class _Idle(threading.local):
    """The idle greenlets of a thread."""

    def __init__(self) -> None:
        self.greenlets: list[TaskGreenlet] = []


_idle = _Idle()


def acquire() -> TaskGreenlet:
    """Returns an idle greenlet."""
    greenlets = _idle.greenlets
    return greenlets.pop() if greenlets else TaskGreenlet()


def release(task: TaskGreenlet) -> None:
    """Keeps a greenlet whose task has ended for the next one."""
    greenlets = _idle.greenlets
    if len(greenlets) < _MAX_IDLE:
        greenlets.append(task)
