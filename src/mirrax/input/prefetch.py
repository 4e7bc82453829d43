"""Reading ahead: the next steps are made ready while the current one runs."""

from __future__ import annotations

import collections
import threading
import weakref
from typing import Any, Protocol

from mirrax.data.nodes.files import Files
from mirrax.data.nodes.filtering import Filter
from mirrax.data.nodes.generated import Generated
from mirrax.data.nodes.interleaving import Interleave
from mirrax.data.nodes.mapping import Map
from mirrax.data.plan import Node, find
from mirrax.trees import Tree

_JOIN_SECONDS = 1.0


class Feed(Protocol):
    """Gives the parts of each step, one for each local replica."""

    def step(self) -> list[Tree] | None:
        """Returns the next parts; None at the end."""

    def save_state(self) -> Any:
        """Returns the position of the next step."""

    def restore_state(self, state: Any) -> None:
        """Goes to a position that `save_state` gave."""


def pays(plan: Node) -> bool:
    """Returns whether a plan has work that can be done while devices compute.

    Looking up rows of arrays takes less time than handing them to another thread.
    """
    return any(find(plan, kind) for kind in (Files, Filter, Generated, Interleave, Map))


class Prefetched:
    """A feed whose steps a thread makes ready, `depth` of them in advance.

    The position is that of what was handed out, not of what was read. The thread ends
    with the data, with an error, or with this object.
    """

    def __init__(self, feed: Feed, depth: int) -> None:
        self._feed = feed
        self._depth = depth
        self._buffer: _Buffer | None = None
        self._position = feed.save_state()

    def step(self) -> list[Tree] | None:
        if self._buffer is None:
            self._buffer = _Buffer(self._depth)
            thread = threading.Thread(
                target=_fill,
                args=(self._buffer, self._feed),
                name="mirrax-prefetch",
                daemon=True,
            )
            weakref.finalize(self, _stop, self._buffer, thread)
            thread.start()
        parts: list[Tree] | None
        parts, self._position, error = self._buffer.get()
        if error is not None:
            raise error
        return parts

    def save_state(self) -> Any:
        return self._position

    def restore_state(self, state: Any) -> None:
        if self._buffer is not None:
            self._buffer.stop()
            self._buffer = None
        self._feed.restore_state(state)
        self._position = state


class _Buffer:
    """Steps between the thread that reads and the one that uses them."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._steps: collections.deque[Any] = collections.deque()
        self._changed = threading.Condition()
        self._last: Any = None
        self.is_stopped = False

    def put(self, step: Any, is_last: bool) -> None:
        with self._changed:
            while len(self._steps) >= self._depth and not self.is_stopped:
                self._changed.wait()
            self._steps.append(step)
            if is_last:
                self._last = step
            self._changed.notify_all()

    def get(self) -> Any:
        with self._changed:
            while not self._steps and self._last is None:
                self._changed.wait()
            step = self._steps.popleft() if self._steps else self._last
            self._changed.notify_all()
            return step

    def stop(self) -> None:
        with self._changed:
            self.is_stopped = True
            self._changed.notify_all()


def _fill(buffer: _Buffer, feed: Feed) -> None:
    while not buffer.is_stopped:
        try:
            parts = feed.step()
            step = (parts, feed.save_state(), None)
        except BaseException as error:
            buffer.put((None, feed.save_state(), error), is_last=True)
            return
        buffer.put(step, is_last=parts is None)
        if parts is None:
            return


def _stop(buffer: _Buffer, thread: threading.Thread) -> None:
    buffer.stop()
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join(_JOIN_SECONDS)
