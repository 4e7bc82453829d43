"""The operations of a dataset; each returns another one."""

from __future__ import annotations

import abc
import functools
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from mirrax.data.dataset_options import SHARD_HINT
from mirrax.data.nodes.batching import Batch, PaddedBatch, Rebatch, Unbatch, few_length
from mirrax.data.nodes.buffered import Prefetch
from mirrax.data.nodes.caching import Cache
from mirrax.data.nodes.combining import Concatenate, Zip
from mirrax.data.nodes.filtering import AssertCardinality, Filter, TakeWhile, Unique
from mirrax.data.nodes.grouping import Window
from mirrax.data.nodes.interleaving import Interleave
from mirrax.data.nodes.mapping import Map, Scan
from mirrax.data.nodes.repeating import Repeat
from mirrax.data.nodes.shuffling import Shuffle
from mirrax.data.nodes.slicing import HintedShard, Limit, Shard
from mirrax.data.nodes.sources import Range, slices_of_columns
from mirrax.data.plan.columns import Columns, as_array
from mirrax.data.plan.node import UNKNOWN, Node
from mirrax.data.plan.seeds import random_seed
from mirrax.data.thread_pool import AUTOTUNE as AUTOTUNE
from mirrax.data.thread_pool import num_threads
from mirrax.errors import InvalidArgumentError
from mirrax.trees import Tree

D = TypeVar("D", bound="Operations[Any]")


class Operations(abc.ABC, Iterable[Tree], Generic[D]):
    """The operations of a dataset of type `D`."""

    @property
    @abc.abstractmethod
    def plan(self) -> Node:
        """The nodes of the pipeline."""

    @abc.abstractmethod
    def _with_plan(self, plan: Node) -> D:
        """Returns a dataset of another plan, with the same options."""

    def _append(self, kind: Callable[..., Node], *arguments: Any) -> D:
        return self._with_plan(kind(self.plan, *arguments))

    def _from_columns(self, structure: Any, columns: Columns) -> D:
        return self._with_plan(slices_of_columns(structure, columns))

    # Transforming elements.

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> D:
        """Returns `map_func` of each element; a tuple is unpacked into arguments.

        It is called once for many elements if the results are equal; the option
        `vectorize_map` turns that off.

        Args:
            map_func: The function.
            num_parallel_calls: How many calls run at once, in threads, if it is called
                for each element. That pays for functions that wait or release Python's
                lock, such as those that read files. Up to twice as many results are
                kept in memory.
            deterministic: Ignored; the order is always that of the elements.
        """
        return self._append(Map, map_func, num_threads(num_parallel_calls))

    def filter(self, predicate: Callable[..., Any]) -> D:
        """Returns the elements for which `predicate` is true."""
        return self._append(Filter, predicate)

    def take_while(self, predicate: Callable[..., Any]) -> D:
        """Returns the elements before the first for which `predicate` is not true."""
        return self._append(TakeWhile, predicate)

    def unique(self) -> D:
        """Returns the elements that differ from all before them."""
        return self._append(Unique)

    def enumerate(self, start: int = 0) -> D:
        """Returns pairs of a number and an element."""
        numbers = Range(int(start))
        return self._with_plan(Zip((numbers, self.plan), jax.tree.structure((0, 0))))

    def interleave(
        self,
        map_func: Callable[..., D],
        cycle_length: int | None = None,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> D:
        """Interleaves the datasets that `map_func` returns.

        Args:
            map_func: Returns a dataset, given an element.
            cycle_length: How many datasets are interleaved; 16 by default.
            block_length: How many consecutive elements each contributes.
            num_parallel_calls: How many of them are read at once, in threads.
            deterministic: Ignored; the order is always deterministic.
        """
        is_chosen = cycle_length not in (None, AUTOTUNE)
        cycle = _count("cycle_length", cycle_length, least=1) if is_chosen else 16
        block = _count("block_length", block_length, least=1)
        threads = min(num_threads(num_parallel_calls), cycle)
        arguments = (cycle, block, random_seed(), threads)
        return self._append(Interleave, _planned(map_func), *arguments)

    def flat_map(self, map_func: Callable[..., D]) -> D:
        """Concatenates the datasets that `map_func` returns."""
        return self._append(Interleave, _planned(map_func), 1, 1, random_seed())

    def scan(
        self, initial_state: Tree, scan_func: Callable[[Any, Any], tuple[Any, Any]]
    ) -> D:
        """Returns the results of a function that keeps a state.

        Args:
            initial_state: The state before the first element.
            scan_func: Returns the next state and a result of a state and an element.
        """
        # NumPy's own strings would lose zeros at their end.
        state = jax.tree.map(lambda x: as_array(x)[()], initial_state)
        return self._append(Scan, state, scan_func)

    # Selecting and ordering elements.

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool = True,
    ) -> D:
        """Returns elements in random order, drawn from a buffer of this size.

        `UNKNOWN_CARDINALITY` is a buffer for all elements.
        """
        is_known = buffer_size != UNKNOWN
        size = _count("buffer_size", buffer_size, least=1) if is_known else sys.maxsize
        is_random = seed is None
        seed = random_seed() if seed is None else int(seed)
        arguments = (size, seed, reshuffle_each_iteration, is_random)
        return self._append(Shuffle, *arguments)

    def repeat(self, count: int | None = None) -> D:
        """Returns the elements `count` times; by default forever."""
        times = None if count is None or count == -1 else _count("count", count)
        return self._append(Repeat, times)

    def shard(self, num_shards: int, index: int) -> D:
        """Returns every `num_shards`th element, from the one at `index` on.

        With `SHARD_HINT` for both and AutoShardPolicy.HINT, the shard of each worker.
        """
        if num_shards == index == SHARD_HINT:
            return self._append(HintedShard)
        if not 0 <= index < num_shards:
            raise InvalidArgumentError(
                "`index` must be one of the shards, from 0 on. Received: "
                f"index={index}, num_shards={num_shards}."
            )
        return self._append(Shard, int(num_shards), int(index))

    def take(self, count: int) -> D:
        """Returns at most `count` elements."""
        return self._append(Limit, 0, None if count == -1 else _count("count", count))

    def skip(self, count: int) -> D:
        """Returns the elements after the first `count`."""
        if count == -1:
            return self.take(0)
        return self._append(Limit, _count("count", count), None)

    def concatenate(self, dataset: D) -> D:
        """Returns the elements of this dataset, then those of another."""
        plan, other = self.plan, plan_of(dataset, "`concatenate`")
        # One node, because plans of many levels exceed Python's recursion limit.
        sources = plan.sources if isinstance(plan, Concatenate) else (plan,)
        return self._with_plan(Concatenate((*sources, other)))

    # Batching elements.

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> D:
        """Returns elements stacked in batches; the last may be smaller."""
        size = _count("batch_size", batch_size, least=1)
        return self._append(Batch, size, drop_remainder)

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Tree = None,
        padding_values: Tree = None,
        drop_remainder: bool = False,
        few_lengths: bool = False,
    ) -> D:
        """Returns batches of elements that are padded to the same shape.

        Args:
            batch_size: The number of elements of a batch.
            padded_shapes: The shapes to pad to. None or -1 is the longest of a batch.
            padding_values: The values to pad with, or one for all components; 0, or
                empty text, by default.
            drop_remainder: Whether a smaller last batch is dropped.
            few_lengths: Whether unknown sizes are rounded up to a power of two, at
                least 16. A step is compiled once for each shape that it gets.
        """
        size = _count("batch_size", batch_size, least=1)
        round_up = few_length if few_lengths else int
        arguments = (size, drop_remainder, padded_shapes, padding_values, round_up)
        return self._append(PaddedBatch, *arguments)

    def unbatch(self) -> D:
        """Returns the rows of the elements."""
        return self._append(Unbatch)

    def rebatch(self, batch_size: Any, drop_remainder: bool = False) -> D:
        """Returns batches of another size, or of several sizes in turn."""
        sizes = tuple(int(size) for size in np.atleast_1d(batch_size))
        if not sizes or min(sizes) < 1:
            raise ValueError(
                "`batch_size` must be one size or several, each at least 1. Received: "
                f"batch_size={batch_size}."
            )
        return self._with_plan(Rebatch(Unbatch(self.plan), sizes, drop_remainder))

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
    ) -> D:
        """Returns datasets of `size` elements each, `shift` apart, as elements.

        Elements that are structures give a structure of datasets, one for each leaf.

        >>> pairs = mirrax.data.Dataset.from_tensor_slices(([1, 2, 3], [4, 5, 6]))
        >>> for x, y in pairs.window(2):
        ...     print([int(i) for i in x], [int(i) for i in y])
        [1, 2] [4, 5]
        [3] [6]
        """
        size = _count("size", size, least=1)
        shift = size if shift is None else _count("shift", shift, least=1)
        stride = _count("stride", stride, least=1)
        arguments = (size, shift, stride, drop_remainder, self._from_columns)
        return self._append(Window, *arguments)

    # Caching and prefetching.

    def cache(self, filename: str = "") -> D:
        """Returns a dataset that is read once and cached, in memory or in a file."""
        return self._append(Cache, filename)

    def prefetch(self, buffer_size: int) -> D:
        """Returns elements that a thread reads in advance, if they are expensive.

        A distributed dataset prefetches in any case, at least this many elements.
        """
        if buffer_size != AUTOTUNE:
            _count("buffer_size", buffer_size)
        return self._append(Prefetch, int(buffer_size))

    def assert_cardinality(self, expected_cardinality: int) -> D:
        """Returns this dataset with a known number of elements, which is checked."""
        return self._append(AssertCardinality, int(expected_cardinality))

    # Consuming elements.

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """Returns `reduce_func(state, element)` of all elements, one after another."""
        return functools.reduce(reduce_func, self, initial_state)


def _planned(function: Callable[..., D]) -> Callable[..., Node]:
    return lambda *leaves: plan_of(
        function(*leaves), "A function given to `interleave`"
    )


def plan_of(made: Any, who: str) -> Node:
    """Returns the plan of a dataset, or raises that `who` must give one."""
    if not isinstance(made, Operations):
        raise TypeError(
            f"{who} must give a `mirrax.data.Dataset`. Received: {made!r} of type "
            f"{type(made).__name__}. Use `mirrax.data.as_dataset` for other data."
        )
    return made.plan


def _count(name: str, value: Any, least: int = 0) -> int:
    try:
        count = operator.index(value)
    except TypeError as error:
        raise TypeError(
            f"`{name}` must be an integer. Received: {name}={value!r} of type "
            f"{type(value).__name__}."
        ) from error
    if count < least:
        raise InvalidArgumentError(
            f"`{name}` must be at least {least}. Received: {name}={count}."
        )
    return count
