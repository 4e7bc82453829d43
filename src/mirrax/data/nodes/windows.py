"""`window`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import (
    ReplayedStream,
    SourceNode,
    SourceStream,
    Stream,
    take_up_to,
)
from mirrax.values.tensor_spec import TensorSpec

_LEAF = jax.tree.structure(0)


class _WindowStream(ReplayedStream, SourceStream):
    _node: Window

    def __init__(self, source: Stream, node: Window) -> None:
        super().__init__(source, node)
        self._rows: list[Any] = []

    @override
    def _take(self, limit: int) -> Columns | None:
        node = self._node
        self._fill((node.size - 1) * node.stride + 1)
        chosen = self._rows[:: node.stride][: node.size]
        if not chosen or (len(chosen) < node.size and node.drop_remainder):
            return None
        self._fill(node.shift)
        del self._rows[: node.shift]
        self.structure = self._source.structure
        return [[node.make(_LEAF, [column])] for column in cols.from_rows(chosen)]

    def _fill(self, count: int) -> None:
        for columns in take_up_to(self._source, max(count - len(self._rows), 0)):
            self._rows.extend(cols.rows_of(columns))


@dataclasses.dataclass(frozen=True, eq=False)
class Window(SourceNode):
    """Groups of elements: for each leaf, a dataset.

    Args:
        size: The size of a group.
        shift: The distance between the starts of groups.
        stride: The distance between elements of a group.
        drop_remainder: Whether smaller groups are dropped.
        make: Returns a dataset, given a structure and columns.
    """

    stream = _WindowStream

    size: int
    shift: int
    stride: int
    drop_remainder: bool
    make: Callable[[Any, Columns], Any] = dataclasses.field(repr=False)

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(lambda leaf: TensorSpec(None, object), self.source.spec)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        if inner < 0:
            return inner
        span = (self.size - 1) * self.stride + 1
        # The number of elements at which a window can start.
        starts = max(inner - span + 1, 0) if self.drop_remainder else inner
        return -(-starts // self.shift)
