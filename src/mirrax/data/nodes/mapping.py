"""`map` and `scan`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
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
from mirrax.data.plan.vectorize import MappedFunction


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
        function = MappedFunction(self.function, self.vectorize)
        if self.num_threads < 2:
            return _MapStream(source, self, function)
        is_ordered = self.is_ordered is not False
        return ParallelStream(source, function, self.num_threads, is_ordered)

    @functools.cached_property
    @override
    def spec(self) -> Any:
        return spec_of_function(self.function, self.source, self)


class _MapStream(CountedStream, DelayingStream):
    def __init__(self, source: Stream, node: Map, function: MappedFunction) -> None:
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
