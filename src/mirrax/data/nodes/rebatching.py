"""`unbatch` and `rebatch`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.node import (
    UNKNOWN,
    Epoch,
    SourceNode,
    State,
    Stream,
    position_error,
)
from mirrax.data.nodes.batching import as_one_row, with_rows
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Unbatch(SourceNode):
    """The rows of elements."""

    cardinality = UNKNOWN

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _UnbatchStream(self.source.open(epoch))

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(_without_rows, self.source.spec)


def _without_rows(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(None if spec.shape is None else spec.shape[1:], spec.dtype)


class _UnbatchStream(Stream):
    """The position is that before a batch, and how many of its rows were taken."""

    def __init__(self, source: Stream) -> None:
        self._source = source
        self._before = source.state()
        self._left: Columns | None = None
        self._used = 0

    @override
    def take(self, limit: int) -> Columns | None:
        while self._left is None or not cols.num_rows(self._left):
            before = self._source.state()
            columns = self._source.take(1)
            self.structure = self._source.structure
            if columns is None:
                return None
            self._before, self._used = before, 0
            self._left = [column[0] for column in columns]
            if any(np.ndim(rows) == 0 for rows in self._left):
                raise InvalidArgumentError(
                    "Elements are taken apart along their first dimension, which every "
                    "array must have. Received: an element with a scalar. Call `batch` "
                    "first."
                )
            sizes = {len(rows) for rows in self._left}
            if len(sizes) > 1:
                raise InvalidArgumentError(
                    "All arrays of an element must have the same number of rows to be "
                    f"taken apart. Received: {sorted(sizes)}."
                )
        taken = cols.select(self._left, slice(0, limit))
        self._left = cols.select(self._left, slice(limit, None))
        self._used += cols.num_rows(taken)
        return taken

    @override
    def state(self) -> State:
        return [self._before, self._used]

    @override
    def restore(self, state: State) -> None:
        self._before, used = state
        self._source.restore(self._before)
        while used:
            columns = self.take(used)
            if columns is None:
                raise position_error(used, 0)
            used -= cols.num_rows(columns)


@dataclasses.dataclass(frozen=True, eq=False)
class Rebatch(SourceNode):
    """Batches of other sizes, which are used in turn.

    Args:
        source: The batches.
        sizes: The new sizes.
        drop_remainder: Whether a smaller last batch is dropped.
    """

    cardinality = UNKNOWN

    sizes: tuple[int, ...]
    drop_remainder: bool = False

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _RebatchStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(
            lambda leaf: with_rows(_without_rows(leaf), None), self.source.spec
        )


class _RebatchStream(Stream):
    def __init__(self, node: Rebatch, epoch: Epoch) -> None:
        self._rows = _UnbatchStream(node.source.open(epoch))
        self._node = node
        self._taken = 0
        self._has_ended = False

    @override
    def take(self, limit: int) -> Columns | None:
        if self._has_ended:
            return None
        missing = self._node.sizes[self._taken % len(self._node.sizes)]
        parts: list[Columns] = []
        while missing and (columns := self._rows.take(missing)) is not None:
            parts.append(columns)
            missing -= cols.num_rows(columns)
        self.structure = self._rows.structure
        if not parts or (missing and self._node.drop_remainder):
            self._has_ended = True
            return None
        self._taken += 1
        return [as_one_row(column) for column in cols.concatenate(parts)]

    @override
    def state(self) -> State:
        return [self._taken, self._has_ended, self._rows.state()]

    @override
    def restore(self, state: State) -> None:
        self._taken, self._has_ended, inner = state
        self._rows.restore(inner)
