"""The plan of a dataset: a tree of immutable nodes.

Opening a node returns a stream, which reads the elements.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax

from mirrax.data.columns import Columns, num_rows

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


class PassingStream(Stream):
    """A stream without state of its own: its position is that of its source."""

    _source: Stream

    def state(self) -> State:
        return self._source.state()

    def restore(self, state: State) -> None:
        self._source.restore(state)


class CountedStream(Stream):
    """A stream whose position is a count and the position of its source."""

    _source: Stream
    _count = 0

    def state(self) -> State:
        return [self._count, self._source.state()]

    def restore(self, state: State) -> None:
        self._count, inner = state
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
        while self._taken < state:
            if self.take(state - self._taken) is None:
                raise position_error(state, self._taken)


@dataclasses.dataclass(frozen=True, eq=False)
class Node(abc.ABC):
    """One step of a plan.

    `is_expensive` nodes read files or call functions, so prefetching them pays.
    """

    is_expensive: ClassVar[bool] = False

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
        """The tree structure of an element."""
        return jax.tree.structure(self.spec)

    def explain(self, depth: int = 0) -> str:
        """Returns the plan as a tree of text, the last step first."""
        facts = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.repr and not _nodes(getattr(self, field.name))
        )
        lines = [f"{'  ' * depth}{type(self).__name__}({facts})"]
        return "\n".join([*lines, *(node.explain(depth + 1) for node in self.inputs)])


@dataclasses.dataclass(frozen=True, eq=False)
class SourceNode(Node):
    """A node of one source; by default it has the same spec and cardinality."""

    source: Node

    @property
    def spec(self) -> Any:
        return self.source.spec

    @property
    def cardinality(self) -> int:
        return self.source.cardinality


def _nodes(value: Any) -> tuple[Node, ...]:
    if isinstance(value, Node):
        return (value,)
    if isinstance(value, tuple) and value and isinstance(value[0], Node):
        return value
    return ()


def rewrite(node: Node, change: Callable[[Node], Node]) -> Node:
    """Returns a plan with `change` applied to each node, after its inputs."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changes[field.name] = rewrite(value, change)
        elif _nodes(value):
            changes[field.name] = tuple(rewrite(item, change) for item in value)
    return change(dataclasses.replace(node, **changes) if changes else node)


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
