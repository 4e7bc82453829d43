"""`Dataset`: an immutable description of an input pipeline."""

from __future__ import annotations

import dataclasses
import functools
import glob as globbing
import itertools
import logging
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.data.dataset_options import Options
from mirrax.data.file_formats.element_files import ElementFile, write_elements
from mirrax.data.grouping_operations import GroupingOperations
from mirrax.data.iterator import DatasetIterator
from mirrax.data.nodes.buffered import Prefetch
from mirrax.data.nodes.caching import SavedElements
from mirrax.data.nodes.combining import Concatenate, Zip, chosen, sampled
from mirrax.data.nodes.filtering import Filter
from mirrax.data.nodes.mapping import Map
from mirrax.data.nodes.repeating import Repeat
from mirrax.data.nodes.shuffling import Shuffle
from mirrax.data.nodes.slicing import Limit, Shard
from mirrax.data.nodes.sources import (
    Generated,
    RandomNumbers,
    Range,
    one_element,
    slices,
)
from mirrax.data.operations import plan_of
from mirrax.data.plan.node import INFINITE, UNKNOWN, Node, replace_inputs, rewrite
from mirrax.data.plan.seeds import random_seed
from mirrax.errors import InvalidArgumentError, NotFoundError
from mirrax.trees import NotTraceableLeaf, Tree
from mirrax.values.tensor_spec import TensorSpec

INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN

_ELEMENTS = "mirrax-elements"
_SAVED_ROWS = 64


class Dataset(GroupingOperations["Dataset"], NotTraceableLeaf):
    """A sequence of elements, each a structure of arrays.

    Made by `as_dataset`, or by a class method such as `range`. A dataset is immutable:
    its methods return new ones. Each iteration restarts.

    Args:
        plan: The nodes of the pipeline, of another dataset.
        options: Sharding and execution options.

    >>> dataset = Dataset.range(5).map(lambda x: x * 2).batch(3)
    >>> [batch.tolist() for batch in dataset]
    [[0, 2, 4], [6, 8]]
    """

    iterator_type: type[DatasetIterator] = DatasetIterator
    """The type of iterators; a subclass may convert elements."""

    def __init__(self, plan: Node, options: Options | None = None) -> None:
        if not isinstance(plan, Node):
            raise TypeError(
                "A dataset is made of data by `mirrax.data.as_dataset`, or by a class "
                "method such as `Dataset.from_tensor_slices`. Received: data of type "
                f"{type(plan).__name__}. Write mirrax.data.as_dataset(data)."
            )
        self._plan = plan
        self._options = options or Options()
        self._iterations = itertools.count()

    @property
    @override
    def plan(self) -> Node:
        """The nodes of the pipeline."""
        return self._plan

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element, nested as it is."""
        return self._plan.spec

    def __iter__(self) -> DatasetIterator:
        return self._iterator()

    def next_iteration(self) -> int:
        """Returns the number of the next iteration, part of the seeds of shuffles."""
        return next(self._iterations)

    def iterate(
        self, plan: Node, iteration: int, kind: type[DatasetIterator] | None = None
    ) -> DatasetIterator:
        """Returns an iterator over a plan: this dataset's, or a shard of it."""
        if not self._options.vectorize_map:
            plan = rewrite(plan, _without_vectorizing)
        return (kind or self.iterator_type)(plan, iteration, self._continue_after)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all elements into a directory, for `load`.

        It is created if needed. An older dataset in it is replaced once the new one is
        complete.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> Dataset.range(3).save(folder)
        >>> [int(number) for number in Dataset.load(folder)]
        [0, 1, 2]
        """
        if self.cardinality() == INFINITE:
            raise ValueError(
                "A dataset that is saved must have an end. Received: an infinite one. "
                "Use `take(count)`."
            )
        folder = pathlib.Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        stream = self._plan.open((self.next_iteration(),))
        chunks = iter(lambda: stream.take(max(stream.chunk, _SAVED_ROWS)), None)
        write_elements(str(folder / _ELEMENTS), self.element_spec, chunks)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Dataset:
        """Returns the dataset that `save` wrote into a directory."""
        file = pathlib.Path(path) / _ELEMENTS
        if not file.is_file():
            raise NotFoundError(
                f"There is no saved dataset in '{path}'. Received: a directory without "
                f"'{_ELEMENTS}'. Write one with `Dataset.save`; datasets that "
                "TensorFlow saved cannot be read."
            )
        elements = ElementFile(str(file))
        return Dataset(
            SavedElements(str(file), elements, elements.spec, elements.num_elements)
        )

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

    def _repr_html_(self) -> str:
        return self._plan._repr_html_()

    def cardinality(self) -> int:
        """Returns the number of elements; -1 if infinite, -2 if unknown."""
        return self._plan.cardinality

    def ignore_errors(self, log_warning: bool = False) -> Dataset:
        """Returns this dataset without elements for which a function raised an error.

        That is a function given to `map` or `filter`, after which there are only these
        and `take`, `skip`, `shard`, `shuffle`, `repeat`, `prefetch` and `concatenate`.
        Before others, such as `batch`, `zip` and `cache`, ignore errors there.

        Args:
            log_warning: Whether the errors are logged as warnings, not as information.

        >>> dataset = Dataset.range(4).map(lambda x: 6 // int(x)).ignore_errors()
        >>> [int(x) for x in dataset]
        [6, 3, 2]
        """
        level = logging.WARNING if log_warning else logging.INFO
        return self._with_plan(_skipping_errors(self._plan, level))

    def as_numpy_iterator(self) -> Iterator[Tree]:
        """Returns the elements as NumPy arrays, which they are anyway."""
        return self._iterator(DatasetIterator)

    def explain(self) -> str:
        """Returns the plan as text, the last step first.

        >>> print(Dataset.range(4).batch(2).explain())
        Batch(size=2, drop_remainder=False)
          Range(start=0, step=1, cardinality=4)
        """
        return self._plan.explain()

    def options(self) -> Options:
        """Returns the options in force."""
        return self._options

    def with_options(self, options: Options) -> Dataset:
        """Returns this dataset with more options.

        What `options` leave at its default stays as it was.
        """
        if not isinstance(options, Options):
            raise TypeError(
                "`options` must be `mirrax.data.Options`. Received: "
                f"{options!r} of type {type(options).__name__}."
            )
        made = self._with_plan(self._plan)
        made._options = options.after(self._options)
        return made

    @override
    def concatenate(self, dataset: Dataset) -> Dataset:
        return super().concatenate(dataset).with_options(dataset.options())

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Returns `transformation_func` of this dataset."""
        return transformation_func(self)

    @staticmethod
    def range(*args: int) -> Dataset:
        """Returns the integers that Python's `range` gives."""
        given = [int(arg) for arg in args]
        if len(given) == 3 and not given[2]:
            raise InvalidArgumentError(
                f"The step of a range must not be 0. Received: {given}. Use 1, or -1 "
                "to count down."
            )
        numbers = range(*given)
        return Dataset(Range(numbers.start, numbers.step, len(numbers)))

    @staticmethod
    def from_tensors(tensors: Tree) -> Dataset:
        """Returns one element."""
        return Dataset(one_element(tensors))

    @staticmethod
    def from_tensor_slices(tensors: Tree) -> Dataset:
        """Returns the slices of arrays along their first dimension.

        >>> [x.tolist() for x in Dataset.from_tensor_slices([[1, 2], [3, 4]])]
        [[1, 2], [3, 4]]
        """
        return Dataset(slices(tensors))

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
        specs = jax.tree.leaves(output_signature)
        if not specs or not all(isinstance(spec, TensorSpec) for spec in specs):
            raise TypeError(
                "`output_signature` must be a `TensorSpec`, or a structure of them. "
                f"Received: {output_signature!r}. Use `mirrax.TensorSpec`."
            )
        return Dataset(Generated(generator, output_signature))

    @staticmethod
    def list_files(
        file_pattern: str | Sequence[str],
        shuffle: bool | None = None,
        seed: int | None = None,
    ) -> Dataset:
        """Returns the files that match a pattern, shuffled by default."""
        patterns = [file_pattern] if isinstance(file_pattern, str) else file_pattern
        names = sorted({name for p in patterns for name in globbing.glob(p)})
        if not names:
            raise NotFoundError(
                f"At least one file must match the pattern. Received: {file_pattern!r}."
            )
        dataset = Dataset.from_tensor_slices(names)
        is_shuffled = shuffle is None or shuffle
        return dataset.shuffle(len(names), seed=seed) if is_shuffled else dataset

    @staticmethod
    def zip(*datasets: Any) -> Dataset:
        """Returns elements of several datasets side by side."""
        nested = datasets[0] if len(datasets) == 1 else datasets
        leaves, nesting = jax.tree.flatten(nested, is_leaf=_is_dataset)
        if not leaves or not all(map(_is_dataset, leaves)):
            raise TypeError(
                "`zip` takes datasets, or a structure of them. Received: "
                f"{[type(leaf).__name__ for leaf in leaves]}. Use "
                "`mirrax.data.as_dataset` for other data."
            )
        plan = Zip(tuple(leaf.plan for leaf in leaves), nesting)
        return Dataset(plan, _common_options(leaves))

    @staticmethod
    def counter(start: int = 0, step: int = 1, dtype: Any = np.int64) -> Dataset:
        """Returns numbers without end."""
        return Dataset(Range(int(start), int(step), dtype=np.dtype(dtype)))

    @staticmethod
    def random(
        seed: int | None = None, rerandomize_each_iteration: bool | None = None
    ) -> Dataset:
        """Returns random integers below 2**32, without end."""
        is_random = seed is None
        number = random_seed() if seed is None else int(seed)
        rerandomize = bool(rerandomize_each_iteration)
        return Dataset(RandomNumbers(number, rerandomize, is_random))

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset],
        choice_dataset: Dataset,
        stop_on_empty_dataset: bool = True,
    ) -> Dataset:
        """Returns elements of the datasets whose indices `choice_dataset` gives.

        >>> both = [Dataset.range(2), Dataset.range(10, 12)]
        >>> chosen = Dataset.choose_from_datasets(both, Dataset.range(2).repeat())
        >>> [int(x) for x in chosen]
        [0, 10, 1, 11]
        """
        plans = [plan_of(dataset, "`datasets`") for dataset in datasets]
        choices = plan_of(choice_dataset, "`choice_dataset`")
        plan = chosen(plans, choices, stop_on_empty_dataset)
        return Dataset(plan, _common_options(datasets))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Sequence[float] | None = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Returns elements of datasets that are drawn at random.

        Args:
            datasets: The datasets.
            weights: Relative probabilities; equal by default.
            seed: The random seed.
            stop_on_empty_dataset: Whether to end with the first dataset that ends.
            rerandomize_each_iteration: Whether each iteration has another order; by
                default if there is no seed.
        """
        plans = [plan_of(dataset, "`datasets`") for dataset in datasets]
        rerandomize = rerandomize_each_iteration
        plan = sampled(plans, weights, seed, stop_on_empty_dataset, rerandomize)
        return Dataset(plan, _common_options(datasets))

    @override
    def _with_plan(self, plan: Node) -> Dataset:
        return Dataset(plan, self._options)

    def _iterator(self, kind: type[DatasetIterator] | None = None) -> DatasetIterator:
        if stack.overlay() is not None:
            # Only Python can iterate a dataset; compiled steps run inside.
            raise NotTraceable
        return self.iterate(self._plan, self.next_iteration(), kind)

    def _continue_after(self, iteration: int) -> None:
        self._iterations = itertools.count(iteration + 1)


def _common_options(datasets: Sequence[Dataset]) -> Options:
    """Returns the options of datasets; where they differ, those of the last."""
    options = [dataset.options() for dataset in datasets]
    return functools.reduce(lambda earlier, later: later.after(earlier), options)


def _without_vectorizing(node: Node) -> Node:
    if isinstance(node, Map):
        return dataclasses.replace(node, vectorize=False)
    return node


# Others would combine elements differently, such as those of another dataset.
_WITHOUT_SOME = Map | Filter | Limit | Shard | Shuffle | Repeat | Prefetch | Concatenate


def _skipping_errors(node: Node, level: int) -> Node:
    if type(node) in (Map, Filter):
        node = dataclasses.replace(node, skip_log_level=level)  # type: ignore[call-arg]
    if isinstance(node, _WITHOUT_SOME):
        return replace_inputs(node, lambda source: _skipping_errors(source, level))
    return node


def _is_dataset(value: object) -> bool:
    return isinstance(value, Dataset)
