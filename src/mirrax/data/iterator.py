"""Iterators: positions that can be saved, and TensorFlow's ways to ask for the next."""

from __future__ import annotations

import abc
import contextlib
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan.node import Node
from mirrax.data.plan.seeds import seeds_of, with_seeds
from mirrax.data.plan.streams import as_count
from mirrax.errors import InvalidArgumentError, OutOfRangeError
from mirrax.trees import NotTraceableLeaf, Tree


class OptionalElement(NotTraceableLeaf):
    """An element, or none."""

    def __init__(self, held: tuple[Tree, ...], describe: Callable[[], Tree]) -> None:
        self._held = held
        self._describe = describe

    @property
    def element_spec(self) -> Tree:
        return self._describe()

    def has_value(self, name: str | None = None) -> jax.Array:
        """Returns whether there is an element; `name` is ignored."""
        return jnp.asarray(bool(self._held))

    def get_value(self, name: str | None = None) -> Tree:
        """Returns the element; raises if there is none. `name` is ignored."""
        if not self._held:
            raise InvalidArgumentError("There is no element: the dataset has ended.")
        return self._held[0]


class GetNext(Iterator[Tree], abc.ABC):
    """TensorFlow's alternatives to `next`."""

    def get_next(self) -> Tree:
        """Returns the next element, or raises `OutOfRangeError` at the end."""
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("The dataset has no more elements.") from None

    def get_next_as_optional(self) -> OptionalElement:
        """Returns the next element, or that there is none."""
        try:
            held: tuple[Tree, ...] = (next(self),)
        except StopIteration:
            held = ()
        return OptionalElement(held, lambda: self.element_spec)

    @property
    @abc.abstractmethod
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element."""


class DatasetIterator(NotTraceableLeaf, GetNext):
    """The elements of a dataset, one after another.

    `save_state` returns the position of the next element as a JSON value;
    `restore_state`, on an iterator of the same dataset, restores it.

    >>> iterator = iter(mirrax.data.Dataset.range(5))
    >>> int(next(iterator)), int(next(iterator))
    (0, 1)
    >>> position = iterator.save_state()
    >>> int(next(iterator))
    2
    >>> iterator.restore_state(position)
    >>> int(next(iterator))
    2
    """

    def __init__(
        self, plan: Node, iteration: int, on_restore: Callable[[int], None]
    ) -> None:
        self._plan = plan
        self._on_restore = on_restore
        self._start(iteration)

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element, nested as it is."""
        return self._plan.spec

    def __next__(self) -> Tree:
        if stack.overlay() is not None:
            raise NotTraceable
        row = self._stream.next_row()
        if row is None:
            raise StopIteration
        return jax.tree.unflatten(self._stream.structure, row)

    def save_state(self) -> dict[str, Any]:
        """Returns the position of the next element, as a JSON value."""
        return seal(self.position())

    def restore_state(self, state: Any) -> None:
        """Restores a position that `save_state` returned."""
        self.seek(unseal(state))

    def position(self) -> dict[str, Any]:
        """Returns the position without a checksum, for the caller to save."""
        before, used = self._stream.state()
        return {
            "iteration": self._iteration,
            "seeds": self._seeds,
            "stream": before,
            "used": used,
        }

    def seek(self, position: dict[str, Any]) -> None:
        """Restores what `position` returned, or raises and stays where it is."""
        before = dict(self.__dict__)
        try:
            with fitting(position):
                self._seek(**position)
        except BaseException:
            self.__dict__.update(before)
            raise
        self._on_restore(position["iteration"])

    def _seek(self, iteration: int, seeds: Any, stream: Any, used: int) -> None:
        self._plan = with_seeds(self._plan, seeds)
        self._start(as_count(iteration))
        self._stream.restore([stream, used])

    def _start(self, iteration: int) -> None:
        self._iteration = iteration
        self._seeds = seeds_of(self._plan)
        self._stream = BufferedStream(self._plan.open((iteration,)))


_VERSION = 2


def seal(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a position with a version and a checksum.

    >>> unseal(seal({"step": 3}))
    {'step': 3}
    """
    return {**state, "version": _VERSION, "checksum": _checksum(state)}


def unseal(sealed: Any) -> dict[str, Any]:
    """Returns the position in what `seal` returned; raises if it was changed."""
    if not isinstance(sealed, dict) or "version" not in sealed:
        raise invalid_position(sealed, "no position")
    if sealed["version"] != _VERSION:
        what = f"one of format version {sealed['version']!r}, not {_VERSION}"
        raise invalid_position(sealed, what)
    state = {k: v for k, v in sealed.items() if k not in ("version", "checksum")}
    if sealed.get("checksum") != _checksum(state):
        raise invalid_position(sealed, "one that was changed")
    return state


@contextlib.contextmanager
def fitting(state: Any) -> Iterator[None]:
    """Raises a ValueError if a position is that of another dataset."""
    try:
        yield
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        if getattr(error, "__notes__", None):
            # Raised by a function of the user.
            raise
        raise invalid_position(state, f"one of another dataset ({error!r})") from error


def _checksum(state: dict[str, Any]) -> int:
    try:
        return zlib.crc32(json.dumps(state, sort_keys=True).encode())
    except (TypeError, ValueError, RecursionError):
        return -1


def invalid_position(received: Any, what: str) -> ValueError:
    """Returns the error for something other than a position."""
    shown = repr(received)
    shown = shown if len(shown) < 200 else f"{shown[:200]}..."
    return ValueError(
        "A position must come from `save_state` of an iterator of the same dataset. "
        f"Received: {what}: {shown}. Start at the beginning, and save a new position."
    )
