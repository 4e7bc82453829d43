"""The elements for which a function is true."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.plan import (
    UNKNOWN,
    Epoch,
    Node,
    PassingStream,
    Stream,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Filter(Node):
    """The elements for which a function is true."""

    source: Node
    predicate: Callable[..., Any]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _FilterStream(self.source.open(epoch), self.predicate)

    @property
    @override
    def spec(self) -> Any:
        return self.source.spec

    @property
    @override
    def cardinality(self) -> int:
        return 0 if self.source.cardinality == 0 else UNKNOWN


class _FilterStream(PassingStream):
    def __init__(self, source: Stream, predicate: Callable[..., Any]) -> None:
        self._source = source
        self._predicate = predicate

    @override
    def take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(limit)) is not None:
            self.structure = self._source.structure
            keep = np.array(
                [
                    bool(cols.call(self._predicate, self.structure, row))
                    for row in cols.rows_of(columns)
                ]
            )
            if keep.any():
                return cols.select(columns, keep)
        return None
