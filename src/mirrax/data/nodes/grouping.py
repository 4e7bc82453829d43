"""`group_by_window` and `window`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.nodes.sources import Slices
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.inference import common_spec, spec_of_first, spec_of_row
from mirrax.data.plan.node import INFINITE, UNKNOWN, Epoch, Node, SourceNode
from mirrax.data.plan.seeds import Seeded, seed_unseeded
from mirrax.data.plan.streams import ReplayedStream, SourceStream, Stream, take_up_to
from mirrax.data.plan.user_functions import UserErrors, call_with_element
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class GroupByWindow(SourceNode, Seeded):
    """The elements of `reduce(key, group)` for groups of elements with the same key.

    Args:
        seed: The seed of unseeded nodes that `reduce` returns.
    """

    is_expensive = True
    is_unseeded = True

    key_of: Callable[..., Any]
    reduce: Callable[[Any, Node], Node]
    size_of: Callable[[Any], Any]
    seed: int = dataclasses.field(repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _GroupStream(self, epoch)

    @functools.cached_property
    @override
    def spec(self) -> Any:
        # Of two keys: dimensions that differ are unknown.
        specs = []
        for key in (0, 1):
            # The function may reject a key.
            with contextlib.suppress(Exception):
                group = Slices([], 0, self.source.spec)
                specs.append(self.reduce(np.int64(key), group).spec)
        spec = common_spec(specs)
        return spec_of_first(self) if spec is None else spec

    @property
    @override
    def cardinality(self) -> int:
        return INFINITE if self.source.cardinality == INFINITE else UNKNOWN


class _GroupStream(ReplayedStream):
    def __init__(self, node: GroupByWindow, epoch: Epoch) -> None:
        self._node = node
        self._epoch = epoch
        self._source = node.source.open(epoch)
        self._spec = node.source.spec
        self._groups: dict[int, list[Any]] = {}
        self._num_read = 0
        self._num_made = 0
        self._has_ended = False
        self._made: Stream | None = None

    @override
    def _take(self, limit: int) -> Columns | None:
        while True:
            columns = None if self._made is None else self._made.take(limit)
            if self._made is not None and columns is not None:
                self.structure = self._made.structure
                return columns
            key = self._next_full()
            if key is None:
                return None
            self._made = self._open_group(key, self._groups.pop(key))

    def _next_full(self) -> int | None:
        """Returns the key of a full group; at the end, of any group left."""
        while not self._has_ended:
            columns = self._source.take(1)
            if columns is None:
                self._has_ended = True
                break
            (row,) = cols.rows_of(columns)
            with UserErrors("group_by_window", self._num_read):
                key = call_with_element(self._node.key_of, self._source.structure, row)
                number = int(np.asarray(key))
                size = int(np.asarray(self._node.size_of(np.int64(number))))
            if size < 1:
                raise InvalidArgumentError(
                    "A group must have at least one element. Received: a size of "
                    f"{size}, for key {number}."
                )
            self._num_read += 1
            self._groups.setdefault(number, []).append(row)
            if len(self._groups[number]) >= size:
                return number
        return min(self._groups, default=None)

    def _open_group(self, key: int, rows: list[Any]) -> Stream:
        spec = self._spec
        if spec is None:
            spec = spec_of_row(self._source, rows[0])
        group = Slices(cols.from_rows(rows), len(rows), spec)
        with UserErrors("group_by_window", self._num_read - 1):
            plan = self._node.reduce(np.int64(key), group)
        seed = (self._node.seed, *self._epoch, self._num_made)
        self._num_made += 1
        return seed_unseeded(plan, seed).open(self._epoch)


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
        shift: The distance between the starts of groups.
        stride: The distance between elements of a group.
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

    @override
    def count_of(self, inner: int) -> int:
        span = (self.size - 1) * self.stride + 1
        # The number of elements at which a window can start.
        starts = max(inner - span + 1, 0) if self.drop_remainder else inner
        return -(-starts // self.shift)
