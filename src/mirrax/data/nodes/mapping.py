"""`map`."""

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
from mirrax.data.node import CountedStream, Epoch, SourceNode, Stream
from mirrax.data.nodes.parallel import ParallelStream
from mirrax.data.vectorize import is_deterministic, is_pure, vectorized
from mirrax.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, eq=False)
class Map(SourceNode):
    """Applies a function to each element.

    Args:
        source: The elements.
        function: The function.
        num_threads: How many calls run at once; 0 for sequential calls.
        is_ordered: Whether results keep the order of the elements; None for the
            dataset's option.
        vectorize: Whether the function may be called once for many elements.
    """

    is_expensive = True

    function: Callable[..., Any]
    num_threads: int = 0
    is_ordered: bool | None = None
    vectorize: bool = True

    @override
    def open(self, epoch: Epoch) -> Stream:
        source = self.source.open(epoch)
        function = _Function(self.function, self.vectorize)
        if self.num_threads < 2:
            return _MapStream(source, function)
        return ParallelStream(
            source,
            function.call,
            function.try_batched,
            self.num_threads,
            self.is_ordered is not False,
        )

    @property
    @override
    def spec(self) -> Any:
        return spec_of_function(self.function, self.source, self)


class _Function:
    """A function that is called for many elements at once if the results are equal."""

    def __init__(self, function: Callable[..., Any], vectorize: bool) -> None:
        self._function = function
        self._vectorize = vectorize and is_pure(function)
        self._is_deterministic = self._vectorize and is_deterministic(function)
        self._is_verified = False
        self._nesting: Any = None

    def try_batched(
        self, structure: Any, columns: Columns
    ) -> tuple[Any, Columns] | None:
        """Returns structure and columns of the results; None if not vectorizable."""
        if not self._vectorize or cols.num_rows(columns) < 2:
            return None
        try:
            is_known = self._is_verified and self._is_deterministic
            nesting, result = vectorized(self._function, structure, columns, is_known)
            if result and (
                self._is_verified
                or self._matches_single_call(structure, columns, result)
            ):
                self._is_verified = True
                return nesting, result
        except Exception:
            # A real error appears again when it is called for each element.
            pass
        self._vectorize = False
        return None

    def call(self, structure: Any, row: Sequence[Any], number: int) -> Any:
        """Returns the leaves and the structure of the result for one element."""
        with cols.annotate_errors("map", number):
            result = cols.call(self._function, structure, row)
            leaves, nesting = jax.tree.flatten(result)
            self._check(nesting, result)
        return leaves, nesting

    def _check(self, nesting: Any, result: Any) -> None:
        if not nesting.num_leaves:
            raise InvalidArgumentError(
                "A function given to `map` must return arrays, or a structure of "
                f"them. Received: {result!r}."
            )
        if self._nesting is None:
            self._nesting = nesting
        elif nesting != self._nesting:
            raise InvalidArgumentError(
                "A function given to `map` must return the same structure for every "
                f"element. Received: {nesting} after {self._nesting}."
            )

    def _matches_single_call(
        self, structure: Any, columns: Columns, result: Columns
    ) -> bool:
        """Returns whether a separate call for the last row gives the same result."""
        row = cols.rows_of(cols.select(columns, slice(-1, None)))[0]
        own = jax.tree.leaves(cols.call(self._function, structure, row))
        return all(
            np.asarray(leaf).dtype == column.dtype
            and np.array_equal(np.asarray(leaf), column[-1])
            for leaf, column in zip(own, result, strict=True)
        )


class _MapStream(CountedStream):
    def __init__(self, source: Stream, function: _Function) -> None:
        self._source = source
        self._function = function
        self._error: Exception | None = None

    @override
    def take(self, limit: int) -> Columns | None:
        if self._error is not None:
            raise self._error
        columns = self._source.take(limit)
        if columns is None:
            return None
        result = self._apply(columns)
        self._count += cols.num_rows(result)
        return result

    def _apply(self, columns: Columns) -> Columns:
        structure = self._source.structure
        batched = self._function.try_batched(structure, columns)
        if batched is not None:
            self.structure, result = batched
            return result
        return self._apply_one_by_one(structure, cols.rows_of(columns))

    def _apply_one_by_one(
        self, structure: Any, rows: Sequence[tuple[Any, ...]]
    ) -> Columns:
        """Returns the results; an error is raised after the results before it."""
        results: list[Any] = []
        for row in rows:
            number = self._count + len(results)
            try:
                leaves, self.structure = self._function.call(structure, row, number)
            except Exception as error:
                if not results:
                    raise
                self._error = error
                break
            results.append(leaves)
        return cols.from_rows(results)
