"""Datasets: sequences of elements, described once and read as often as one likes."""

from __future__ import annotations

import copy
import dataclasses
import glob as globbing
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from mirrax.context import stack
from mirrax.context.guards import MustDrive
from mirrax.data import batching, buffering, ordering, sources, transforms
from mirrax.data.columns import Columns, as_strings
from mirrax.data.iterator import DatasetIterator
from mirrax.data.options import Options
from mirrax.data.plan import INFINITE, UNKNOWN, Node, rewritten
from mirrax.data.readers import FixedLengthReader, TextLineReader, TFRecordReader
from mirrax.trees import Tree
from mirrax.values.driving import Driving

AUTOTUNE = -1
"""Accepted wherever TensorFlow lets the runtime choose a number."""

INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN


class Dataset(Driving):
    """A sequence of elements, each a structure of arrays.

    A dataset never changes: its methods return new ones. Each iteration starts anew.

    Args:
        plan: What is read, and what is done with it.
        options: How it is shared and run.

    >>> dataset = Dataset.range(5).map(lambda x: x * 2).batch(3)
    >>> [batch.tolist() for batch in dataset]
    [[0, 2, 4], [6, 8]]
    """

    def __init__(self, plan: Node, options: Options | None = None) -> None:
        self._plan = plan
        self._options = options or Options()
        self._iterations = itertools.count()

    @property
    def plan(self) -> Node:
        """What is read, and what is done with it."""
        return self._plan

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element, nested as it is."""
        return self._plan.spec

    def __iter__(self) -> DatasetIterator:
        if stack.overlay() is not None:
            # Only Python can work through a dataset; compiled steps run inside.
            raise MustDrive
        plan = self._plan
        if not self._options.vectorize_map:
            plan = rewritten(plan, _one_by_one)
        return DatasetIterator(plan, next(self._iterations), self._continue_after)

    def __len__(self) -> int:
        count = self.cardinality()
        if count < 0:
            kind = "infinite" if count == INFINITE else "unknown"
            raise TypeError(f"The length of this dataset is {kind}.")
        return count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<mirrax.data.Dataset element_spec={self.element_spec}>"

    def cardinality(self) -> int:
        """Returns the number of elements; -1 if infinite, -2 if unknown."""
        return self._plan.cardinality

    def as_numpy_iterator(self) -> Iterator[Tree]:
        """Returns the elements as NumPy arrays, which they are anyway."""
        return iter(self)

    def explain(self) -> str:
        """Returns the plan as text, the last step first.

        >>> print(Dataset.range(4).batch(2).explain())
        Batch(size=2, drop_remainder=False)
          Range(numbers=range(0, 4))
        """
        return self._plan.explain()

    def options(self) -> Options:
        """Returns the options in force."""
        return self._options

    def with_options(self, options: Options) -> Dataset:
        """Returns this dataset with other options."""
        return Dataset(self._plan, copy.deepcopy(options))

    # Sources.

    @staticmethod
    def range(*args: int) -> Dataset:
        """Returns the integers that Python's `range` gives."""
        return Dataset(sources.Range(range(*(int(arg) for arg in args))))

    @staticmethod
    def from_tensors(tensors: Tree) -> Dataset:
        """Returns one element."""
        arrays = jax.tree.map(
            lambda leaf: _array(leaf)[None], tensors, is_leaf=_is_list
        )
        return _slices(arrays)

    @staticmethod
    def from_tensor_slices(tensors: Tree) -> Dataset:
        """Returns the slices of arrays along their first dimension.

        >>> [x.tolist() for x in Dataset.from_tensor_slices([[1, 2], [3, 4]])]
        [[1, 2], [3, 4]]
        """
        return _slices(jax.tree.map(_array, tensors, is_leaf=_is_list))

    @staticmethod
    def from_generator(
        generator: Callable[[], Iterable[Any]], output_signature: Tree
    ) -> Dataset:
        """Returns what `generator()` yields, which must fit `output_signature`."""
        if not callable(generator):
            raise TypeError(
                "`generator` is a function that returns an iterable, so that it can "
                f"start anew. Received: {generator!r}. Use `lambda: it`."
            )
        return Dataset(sources.Generated(generator, output_signature))

    @staticmethod
    def list_files(
        file_pattern: str | Sequence[str],
        shuffle: bool | None = None,
        seed: int | None = None,
    ) -> Dataset:
        """Returns the names of the files that fit a pattern, shuffled by default."""
        patterns = [file_pattern] if isinstance(file_pattern, str) else file_pattern
        names = sorted({name for p in patterns for name in globbing.glob(p)})
        if not names:
            raise FileNotFoundError(
                f"At least one file must fit the pattern. Received: {file_pattern!r}."
            )
        dataset = Dataset.from_tensor_slices(names)
        is_shuffled = shuffle is None or shuffle
        return dataset.shuffle(len(names), seed=seed) if is_shuffled else dataset

    @staticmethod
    def zip(*datasets: Any) -> Dataset:
        """Returns elements of several datasets side by side."""
        nested = datasets[0] if len(datasets) == 1 else datasets
        leaves, nesting = jax.tree.flatten(nested, is_leaf=_is_dataset)
        plan = transforms.Zip(tuple(leaf.plan for leaf in leaves), nesting)
        return Dataset(plan, leaves[0].options())

    # What is done with elements.

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """Returns `map_func` of each element; a tuple is given as its items.

        It is called once for many elements where that comes to the same; the option
        `vectorize_map` turns that off. Elements come in order, whatever is said about
        parallel calls.
        """
        return self._then(transforms.Map, map_func)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """Returns the elements for which `predicate` is true."""
        return self._then(transforms.Filter, predicate)

    def enumerate(self, start: int = 0) -> Dataset:
        """Returns pairs of a number and an element."""
        return self._then(transforms.Enumerate, int(start))

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: int | None = None,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """Returns the elements of the datasets that `map_func` makes, in turn."""
        cycle = 16 if cycle_length in (None, AUTOTUNE) else cycle_length
        return self._then(
            transforms.Interleave, _plan_of(map_func), cycle, block_length
        )

    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """Returns the elements of the datasets that `map_func` makes, one by one."""
        return self._then(transforms.Interleave, _plan_of(map_func), 1, 1)

    # Which elements, in which order.

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool = True,
    ) -> Dataset:
        """Returns elements in random order, drawn from a buffer of this size."""
        _require_positive("buffer_size", buffer_size)
        seed = secrets.randbits(31) if seed is None else int(seed)
        arguments = (int(buffer_size), seed, reshuffle_each_iteration)
        return self._then(ordering.Shuffle, *arguments)

    def repeat(self, count: int | None = None) -> Dataset:
        """Returns the elements `count` times; without it, for ever."""
        times = None if count is None or count == -1 else int(count)
        return self._then(ordering.Repeat, times)

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Returns every `num_shards`th element, from the one at `index` on."""
        if not 0 <= index < num_shards:
            raise ValueError(
                "`index` must be one of the shards, from 0 on. Received: "
                f"index={index}, num_shards={num_shards}."
            )
        return self._then(ordering.Shard, int(num_shards), int(index))

    def take(self, count: int) -> Dataset:
        """Returns at most `count` elements."""
        return self._then(ordering.Limit, 0, None if count == -1 else int(count))

    def skip(self, count: int) -> Dataset:
        """Returns the elements after the first `count`."""
        if count == -1:
            return self.take(0)
        return self._then(ordering.Limit, int(count), None)

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Returns the elements of this dataset, then those of another."""
        plan = transforms.Concatenate((self._plan, dataset.plan))
        return Dataset(plan, self._options)

    # Putting elements together.

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """Returns elements stacked in batches; the last may be smaller."""
        _require_positive("batch_size", batch_size)
        return self._then(batching.Batch, int(batch_size), drop_remainder)

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Tree = None,
        padding_values: Tree = None,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Returns batches of elements that are filled up to the same shape."""
        _require_positive("batch_size", batch_size)
        arguments = (batch_size, padded_shapes, padding_values, drop_remainder)
        return self._then(batching.PaddedBatch, *arguments)

    def unbatch(self) -> Dataset:
        """Returns the rows of the elements."""
        return self._then(batching.Unbatch)

    def rebatch(self, batch_size: Any, drop_remainder: bool = False) -> Dataset:
        """Returns batches of another size, or of several sizes in turn."""
        sizes = tuple(int(size) for size in np.atleast_1d(batch_size))
        if not sizes or min(sizes) < 1:
            raise ValueError(
                "`batch_size` must be one size or several, each at least 1. Received: "
                f"batch_size={batch_size}."
            )
        return self._then(batching.Rebatch, sizes, drop_remainder)

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Returns datasets of `size` elements each, `shift` apart, as elements."""
        _require_positive("size", size)
        arguments = (size, shift or size, stride, drop_remainder, _from_columns)
        return self._then(batching.Window, *arguments)

    # Keeping elements.

    def cache(self, filename: str = "") -> Dataset:
        """Returns a dataset that is read once and then kept, in memory or in a file."""
        return self._then(buffering.Cache, filename)

    def prefetch(self, buffer_size: int) -> Dataset:
        """Says how far to read ahead of what devices need."""
        return self._then(buffering.Prefetch, buffer_size)

    # Using elements.

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """Returns `reduce_func(state, element)` of all elements, one after another."""
        state = initial_state
        for element in self:
            state = reduce_func(state, element)
        return state

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Returns `transformation_func` of this dataset."""
        return transformation_func(self)

    def _continue_after(self, iteration: int) -> None:
        self._iterations = itertools.count(iteration + 1)

    def _then(self, kind: Callable[..., Node], *arguments: Any) -> Dataset:
        return Dataset(kind(self._plan, *arguments), self._options)


class TFRecordDataset(Dataset):
    """The records of TFRecord files, checked, as bytes."""

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        compression = compression_type or ""
        super().__init__(
            sources.Files(
                _names(filenames),
                lambda files: TFRecordReader(files, compression),
                "TFRecord",
            )
        )


class TextLineDataset(Dataset):
    """The lines of text files, as bytes."""

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        compression = compression_type or ""
        super().__init__(
            sources.Files(
                _names(filenames),
                lambda files: TextLineReader(files, compression),
                "text",
            )
        )


class FixedLengthRecordDataset(Dataset):
    """The records of files in which each has the same length, as bytes."""

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        compression_type: str | None = None,
    ) -> None:
        compression = compression_type or ""
        super().__init__(
            sources.Files(
                _names(filenames),
                lambda files: FixedLengthReader(
                    files, record_bytes, header_bytes, footer_bytes, compression
                ),
                "fixed length",
            )
        )


def _slices(arrays: Tree) -> Dataset:
    leaves, nesting = jax.tree.flatten(arrays)
    if not leaves or any(leaf.ndim == 0 for leaf in leaves):
        raise ValueError(
            "Slices are taken along the first dimension, which every array must have. "
            f"Received: shapes {[leaf.shape for leaf in leaves]}."
        )
    sizes = {len(leaf) for leaf in leaves}
    if len(sizes) > 1:
        raise ValueError(
            "All arrays must have the same number of rows. Received: "
            f"{sorted(sizes)}. Cut them to the same length."
        )
    return Dataset(sources.Slices(tuple(leaves), nesting, len(leaves[0])))


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(leaf)
    if array.dtype.kind in "US":
        return as_strings(array.ravel().tolist()).reshape(array.shape)
    if isinstance(leaf, list | float | int) and array.dtype == np.float64:
        # What TensorFlow, and JAX, make of Python's numbers.
        return array.astype(np.float32)
    return array


def _from_columns(structure: Any, columns: Columns) -> Dataset:
    arrays = tuple(np.asarray(column) for column in columns)
    return Dataset(sources.Slices(arrays, structure, len(arrays[0])))


def _one_by_one(node: Node) -> Node:
    """Returns a node that calls its function for each element."""
    if isinstance(node, transforms.Map):
        return dataclasses.replace(node, vectorize=False)
    return node


def _plan_of(function: Callable[..., Dataset]) -> Callable[..., Node]:
    return lambda *leaves: function(*leaves).plan


def _names(filenames: Any) -> tuple[str, ...]:
    if isinstance(filenames, Dataset):
        return tuple(name.decode() for name in filenames)
    if isinstance(filenames, str | bytes):
        filenames = [filenames]
    names = np.asarray(filenames, object).ravel().tolist()
    return tuple(n.decode() if isinstance(n, bytes) else str(n) for n in names)


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}.")


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_dataset(value: object) -> bool:
    return isinstance(value, Dataset)
