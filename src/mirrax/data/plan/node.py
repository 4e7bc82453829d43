"""The plan of a dataset: a tree of immutable nodes.

Opening a node returns a stream, which reads the elements.
"""

from __future__ import annotations

import abc
import dataclasses
import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import jax

from mirrax.data.plan.columns import Columns, num_rows
from mirrax.errors import InvalidArgumentError
from mirrax.html_tables import html_table

T = TypeVar("T")

_SKIPPED_ROWS = 64

INFINITE = -1
UNKNOWN = -2

Epoch = tuple[int, ...]
"""Which iteration of a dataset this is, and of the repetitions inside it."""

State = Any
"""A position in a stream, as numbers, lists and strings."""


class Stream(abc.ABC):
    """The elements of a node, in order.

    `structure` is the tree structure of an element, known after the first `take`.
    `chunk` is how many elements to take at once when they are used one by one.
    """

    structure: Any = None
    chunk: int = 1

    @abc.abstractmethod
    def take(self, limit: int) -> Columns | None:
        """Returns at most `limit` elements, and at least one; None at the end."""

    @abc.abstractmethod
    def state(self) -> State:
        """Returns the position of the next element."""

    @abc.abstractmethod
    def restore(self, state: State) -> None:
        """Restores a position, before the first `take`."""


def require_same_structure(known: Any, found: Any, what: str) -> Any:
    """Returns the structure `found`; raises if it differs from a known one."""
    if known is not None and known != found:
        raise InvalidArgumentError(
            f"{what} must have elements of the same structure. Received: {found} after "
            f"{known}."
        )
    return found


class NumberedStream(Stream):
    """A stream whose position is the number of the next element, up to `_end`."""

    _next = 0
    _end = sys.maxsize

    def state(self) -> State:
        return self._next

    def restore(self, state: State) -> None:
        self._next = as_count(state, self._end)


class SourceStream(Stream):
    """The elements of a node of one source.

    The position is a count, which some nodes need, and the position of the source.
    """

    _count = 0

    def __init__(self, source: Stream, node: Any) -> None:
        self._source = source
        self._node = node

    def state(self) -> State:
        return [self._count, self._source.state()]

    def restore(self, state: State) -> None:
        count, inner = state
        self._count = as_count(count)
        self._source.restore(inner)


class ReplayedStream(Stream):
    """A stream whose position is a count; restores by taking as many elements."""

    _taken = 0

    def take(self, limit: int) -> Columns | None:
        columns = self._take(limit)
        if columns is not None:
            self._taken += num_rows(columns)
        return columns

    @abc.abstractmethod
    def _take(self, limit: int) -> Columns | None:
        """Returns at most `limit` elements, and at least one; None at the end."""

    def state(self) -> State:
        return self._taken

    def restore(self, state: State) -> None:
        skip(self, state)


class DelayingStream(Stream):
    """A stream that raises an error only after the elements before it."""

    _error: Exception | None = None

    def take(self, limit: int) -> Columns | None:
        if self._error is not None:
            raise self._error
        return self._take(limit)

    @abc.abstractmethod
    def _take(self, limit: int) -> Columns | None:
        """Returns at most `limit` elements, and at least one; None at the end."""

    def _until_error(self, items: Iterable[T]) -> list[T]:
        """Returns the items before an error, which the next `take` raises."""
        found: list[T] = []
        try:
            for item in items:
                found.append(item)
        except Exception as error:
            if not found:
                raise
            self._error = error
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Node(abc.ABC):
    """One step of a plan.

    `is_expensive` nodes read files or call functions, so prefetching them pays.
    Elements of nodes that `keeps_batch_size` have as many rows as those of its inputs.
    """

    is_expensive: ClassVar[bool] = False
    keeps_batch_size: ClassVar[bool] = False

    @abc.abstractmethod
    def open(self, epoch: Epoch) -> Stream:
        """Returns the elements, from the start."""

    @property
    @abc.abstractmethod
    def spec(self) -> Any:
        """Shapes and dtypes of an element."""

    @property
    @abc.abstractmethod
    def cardinality(self) -> int:
        """The number of elements, INFINITE or UNKNOWN."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose elements this one uses."""
        return tuple(
            value
            for field in dataclasses.fields(self)
            for value in _nodes(getattr(self, field.name))
        )

    @property
    def structure(self) -> Any:
        return jax.tree.structure(self.spec)

    def explain(self, depth: int = 0) -> str:
        facts = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.repr and not _nodes(getattr(self, field.name))
        )
        lines = [f"{'  ' * depth}{type(self).__name__}({facts})"]
        return "\n".join([*lines, *(node.explain(depth + 1) for node in self.inputs)])

    def _repr_html_(self) -> str:
        rows = [(line.strip(),) for line in reversed(self.explain().splitlines())]
        note = f"element_spec={self.spec}"
        return html_table("Dataset, from its source", ("step",), rows, note)


@dataclasses.dataclass(frozen=True, eq=False)
class SourceNode(Node):
    """A node of one source; by default it has the same spec and cardinality."""

    stream: ClassVar[type[SourceStream]]

    source: Node

    def open(self, epoch: Epoch) -> Stream:
        return self.stream(self.source.open(epoch), self)

    @property
    def spec(self) -> Any:
        return self.source.spec

    @property
    def cardinality(self) -> int:
        inner = self.source.cardinality
        return inner if inner < 0 else self.count_of(inner)

    def count_of(self, inner: int) -> int:
        """Returns how many elements it has if its source has `inner`."""
        return inner


def _nodes(value: Any) -> tuple[Node, ...]:
    if isinstance(value, Node):
        return (value,)
    if isinstance(value, tuple) and value and isinstance(value[0], Node):
        return value
    return ()


def replace_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """Returns a node with `change` applied to its inputs."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if nodes := tuple(map(change, _nodes(value))):
            changes[field.name] = nodes[0] if isinstance(value, Node) else nodes
    return dataclasses.replace(node, **changes) if changes else node


def rewrite(node: Node, change: Callable[[Node], Node]) -> Node:
    """Returns a plan with `change` applied to each node, after its inputs."""
    return change(replace_inputs(node, lambda inner: rewrite(inner, change)))


def take_up_to(stream: Stream, count: int) -> list[Columns]:
    """Returns the next `count` elements of a stream in pieces, fewer at its end."""
    parts: list[Columns] = []
    while count and (columns := stream.take(count)) is not None:
        parts.append(columns)
        count -= num_rows(columns)
    return parts


def skip(stream: Stream, count: int) -> None:
    """Takes `count` elements of a stream, to restore its position."""
    skipped = skip_up_to(stream, as_count(count))
    if skipped < count:
        raise position_error(count, skipped)


def skip_up_to(stream: Stream, count: int) -> int:
    """Takes up to `count` elements of a stream; returns how many there were."""
    left = count
    while left:
        # Few at once, because a stream holds all that it is asked for.
        columns = stream.take(min(left, max(stream.chunk, _SKIPPED_ROWS)))
        if columns is None:
            break
        left -= num_rows(columns)
        del columns
    return count - left


def as_count(value: Any, end: int = sys.maxsize) -> int:
    """Returns a number of a position; raises unless it is one from 0 to `end`."""
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no count")
    if value > end:
        raise position_error(value, end)
    return value


def position_error(position: int, end: int) -> ValueError:
    """Returns the error for a position after the end of the data."""
    return ValueError(
        "A dataset must hold what it held when its position was saved. Received: "
        f"position {position}, but it ends after {end} elements."
    )


def has_expensive_node(plan: Node) -> bool:
    """Returns whether prefetching a plan pays."""
    return plan.is_expensive or any(has_expensive_node(node) for node in plan.inputs)


def find(node: Node, kind: type[Node]) -> list[Node]:
    """Returns all nodes of a type in a plan."""
    found = [node] if isinstance(node, kind) else []
    return found + [item for child in node.inputs for item in find(child, kind)]
