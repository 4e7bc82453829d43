"""The plan of a dataset: a tree of immutable nodes.

Opening a node returns a stream, which reads the elements.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import jax

from mirrax.data.plan.streams import SourceStream, Stream
from mirrax.html_tables import html_table

T = TypeVar("T")

INFINITE = -1
UNKNOWN = -2

Epoch = tuple[int, ...]
"""Which iteration of a dataset this is, and of the repetitions inside it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Node(abc.ABC):
    """One step of a plan.

    `is_expensive` nodes read files or call functions, so prefetching them pays.
    Elements of nodes that `keeps_batch_size` have as many rows as those of its inputs.
    Those of nodes that `only_reorders` are the elements of the source.
    """

    is_expensive: ClassVar[bool] = False
    keeps_batch_size: ClassVar[bool] = False
    only_reorders: ClassVar[bool] = False

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


def has_expensive_node(plan: Node) -> bool:
    """Returns whether prefetching a plan pays."""
    return plan.is_expensive or any(has_expensive_node(node) for node in plan.inputs)


def find(node: Node, kind: type[T]) -> list[T]:
    """Returns all nodes of a type in a plan."""
    found = [node] if isinstance(node, kind) else []
    return found + [item for child in node.inputs for item in find(child, kind)]
