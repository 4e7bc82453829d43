"""`unbatch` and `rebatch`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.nodes.batching import take_batch, with_rows
from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import (
    UNKNOWN,
    CountedStream,
    Epoch,
    SourceNode,
    Stream,
)
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Unbatch(SourceNode):
    """The rows of elements."""

    cardinality = UNKNOWN

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _rows_of(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(_without_rows, self.source.spec)


def _without_rows(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(None if spec.shape is None else spec.shape[1:], spec.dtype)


def _rows_of(node: SourceNode, epoch: Epoch) -> Stream:
    return BufferedStream(_ElementRows(node.source.open(epoch), node))


class _ElementRows(CountedStream):
    """Gives all rows of an element at once."""

    @override
    def take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(1)) is not None:
            self.structure = self._source.structure
            rows = [column[0] for column in columns]
            if any(np.ndim(leaf) == 0 for leaf in rows):
                raise InvalidArgumentError(
                    "Elements are taken apart along their first dimension, which every "
                    "array must have. Received: an element with a scalar. Call `batch` "
                    "first."
                )
            sizes = {len(leaf) for leaf in rows}
            if len(sizes) > 1:
                raise InvalidArgumentError(
                    "All arrays of an element must have the same number of rows to be "
                    f"taken apart. Received: {sorted(sizes)}."
                )
            if cols.num_rows(rows):
                return rows
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Rebatch(SourceNode):
    """Batches of other sizes, which are used in turn."""

    cardinality = UNKNOWN

    sizes: tuple[int, ...]
    drop_remainder: bool = False

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _RebatchStream(_rows_of(self, epoch), self)

    @property
    @override
    def spec(self) -> Any:
        is_fixed = self.drop_remainder and len(set(self.sizes)) == 1
        size = self.sizes[0] if is_fixed else None
        return jax.tree.map(
            lambda leaf: with_rows(_without_rows(leaf), size), self.source.spec
        )


class _RebatchStream(CountedStream):
    _node: Rebatch

    @override
    def take(self, limit: int) -> Columns | None:
        size = self._node.sizes[self._count % len(self._node.sizes)]
        batch = take_batch(self._source, size, self._node.drop_remainder)
        self.structure = self._source.structure
        self._count += batch is not None
        return batch
