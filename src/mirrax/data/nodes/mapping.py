"""A function of each element."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.inference import spec_of_function
from mirrax.data.plan import (
    Epoch,
    Node,
    State,
    Stream,
)
from mirrax.data.vectorize import is_pure, vectorized


@dataclasses.dataclass(frozen=True, eq=False)
class Map(Node):
    """A function of each element."""

    source: Node
    function: Callable[..., Any]
    vectorize: bool = True

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _MapStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return spec_of_function(self.function, self.source, self)

    @property
    @override
    def cardinality(self) -> int:
        return self.source.cardinality


class _MapStream(Stream):
    def __init__(self, node: Map, epoch: Epoch) -> None:
        self._source = node.source.open(epoch)
        self._function = node.function
        self._vectorize = node.vectorize and is_pure(node.function)
        self._is_proved = False
        self._number = 0
        self._error: Exception | None = None

    @override
    def take(self, limit: int) -> Columns | None:
        if self._error is not None:
            raise self._error
        columns = self._source.take(limit)
        if columns is None:
            return None
        result = self._apply(columns)
        self._number += cols.num_rows(result)
        return result

    @override
    def state(self) -> State:
        return [self._number, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        self._number, inner = state
        self._source.restore(inner)

    def _apply(self, columns: Columns) -> Columns:
        if self._vectorize and cols.num_rows(columns) > 1:
            try:
                structure, result = vectorized(
                    self._function, self._source.structure, columns
                )
                if self._is_proved or self._agrees(columns, result):
                    self.structure, self._is_proved = structure, True
                    return result
            except Exception:
                # Whatever it was, calling it for each element shows it if it is real.
                pass
            self._vectorize = False
        return self._apply_one_by_one(cols.rows_of(columns))

    def _apply_one_by_one(self, rows: Sequence[tuple[Any, ...]]) -> Columns:
        """Returns what the function gives; what comes before an error comes first."""
        results: list[Any] = []
        for row in rows:
            try:
                results.append(self._call(row))
            except Exception as error:
                error.add_note(
                    "[mirrax] raised by a function given to `map`, at element "
                    f"{self._number + len(results)}"
                )
                if not results:
                    raise
                self._error = error
                break
        return cols.from_rows(results)

    def _agrees(self, columns: Columns, result: Columns) -> bool:
        """Returns whether the last row comes out the same on its own."""
        row = cols.rows_of(cols.select(columns, slice(-1, None)))[0]
        own = self._call(row)
        return all(
            np.asarray(leaf).dtype == column.dtype
            and np.array_equal(np.asarray(leaf), column[-1])
            for leaf, column in zip(own, result, strict=True)
        )

    def _call(self, row: tuple[Any, ...]) -> list[Any]:
        result = cols.call(self._function, self._source.structure, row)
        leaves, self.structure = jax.tree.flatten(result)
        return leaves
