"""`filter`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.node import (
    UNKNOWN,
    CountedStream,
    Epoch,
    SourceNode,
    Stream,
)
from mirrax.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, eq=False)
class Filter(SourceNode):
    """The elements for which a function is true."""

    is_expensive = True

    predicate: Callable[..., Any]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _FilterStream(self.source.open(epoch), self.predicate)

    @property
    @override
    def cardinality(self) -> int:
        return 0 if self.source.cardinality == 0 else UNKNOWN


class _FilterStream(CountedStream):
    def __init__(self, source: Stream, predicate: Callable[..., Any]) -> None:
        self._source = source
        self._predicate = predicate
        self._error: Exception | None = None

    @override
    def take(self, limit: int) -> Columns | None:
        if self._error is not None:
            raise self._error
        while (columns := self._source.take(limit)) is not None:
            self.structure = self._source.structure
            kept = cols.select(columns, self._which(cols.rows_of(columns)))
            self._count += cols.num_rows(columns)
            if cols.num_rows(kept):
                return kept
            if self._error is not None:
                raise self._error
        return None

    def _which(self, rows: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Returns a mask of rows to keep; an error is raised after those before it."""
        keep = np.zeros(len(rows), bool)
        for place, row in enumerate(rows):
            try:
                with cols.annotate_errors("filter", self._count + place):
                    keep[place] = self._is_kept(row)
            except Exception as error:
                self._error = error
                break
        return keep

    def _is_kept(self, row: Any) -> bool:
        result = cols.call(self._predicate, self.structure, row)
        if np.ndim(result):
            raise InvalidArgumentError(
                "A function given to `filter` must return one truth value. Received: "
                f"an array of shape {np.shape(result)}. Use `.all()` or `.any()`."
            )
        return bool(result)
