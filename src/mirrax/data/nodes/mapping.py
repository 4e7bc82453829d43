"""`map` and `scan`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.nodes.parallel import ParallelStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.inference import spec_of_function
from mirrax.data.plan.node import (
    CountedStream,
    DelayingStream,
    Epoch,
    ReplayedStream,
    SourceNode,
    SourceStream,
    Stream,
)
from mirrax.data.plan.vectorize import is_deterministic, is_pure, vectorized
from mirrax.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, eq=False)
class Map(SourceNode):
    """Applies a function to each element.

    Args:
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
            return _MapStream(source, self, function)
        return ParallelStream(
            source,
            function.call,
            function.try_batched,
            self.num_threads,
            self.is_ordered is not False,
        )

    @functools.cached_property
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
        with cols.ErrorNote("map", number):
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


class _MapStream(CountedStream, DelayingStream):
    def __init__(self, source: Stream, node: Map, function: _Function) -> None:
        super().__init__(source, node)
        self._function = function

    @override
    def _take(self, limit: int) -> Columns | None:
        columns = self._source.take(limit)
        if columns is None:
            return None
        structure = self._source.structure
        batched = self._function.try_batched(structure, columns)
        if batched is not None:
            self.structure, result = batched
        else:
            call = functools.partial(self._function.call, structure)
            numbers = itertools.count(self._count)
            results = self._until_error(map(call, cols.rows_of(columns), numbers))
            self.structure = results[-1][1]
            result = cols.from_rows([leaves for leaves, _ in results])
        self._count += cols.num_rows(result)
        return result


class _ScanStream(ReplayedStream, SourceStream):
    _node: Scan

    def __init__(self, source: Stream, node: Scan) -> None:
        super().__init__(source, node)
        self._state = node.initial_state

    @override
    def _take(self, limit: int) -> Columns | None:
        columns = self._source.take(1)
        if columns is None:
            return None
        (row,) = cols.rows_of(columns)
        element = jax.tree.unflatten(self._source.structure, row)
        with cols.ErrorNote("scan", self._taken):
            self._state, result = self._node.call(self._state, element)
        leaves, self.structure = jax.tree.flatten(result)
        return cols.from_rows([leaves])


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(SourceNode):
    """The results of a function that carries a state.

    Args:
        initial_state: The state before the first element.
        function: Returns the next state and a result, given a state and an element.
    """

    stream = _ScanStream
    is_expensive = True

    initial_state: Any
    function: Callable[[Any, Any], Any]

    def call(self, state: Any, element: Any) -> tuple[Any, Any]:
        """Returns the next state, and the result."""
        made = self.function(state, element)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(
                "A function given to `scan` must return a pair: the next state and a "
                f"result. Received: {made!r}."
            )
        return made

    @functools.cached_property
    @override
    def spec(self) -> Any:
        element = self.source.spec
        is_split = isinstance(element, tuple) and not hasattr(element, "_fields")

        def result(*parts: Any) -> Any:
            return self.call(self.initial_state, parts if is_split else parts[0])[1]

        return spec_of_function(result, self.source, self)
