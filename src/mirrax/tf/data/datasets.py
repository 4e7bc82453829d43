"""Mirrax datasets whose elements are tensors, with TensorFlow's methods."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import reprlib
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np

import mirrax
from mirrax.errors import InvalidArgumentError, NotFoundError
from mirrax.tf.data.element_checks import (
    require_padding,
    require_rows,
    require_same_types,
)
from mirrax.tf.data.input_iterator import InputIterator
from mirrax.tf.data.options import Options
from mirrax.tf.data.present_names import with_present_names
from mirrax.tf.io.files import path_of
from mirrax.tf.namespaces.missing_names import replacement_of
from mirrax.tf.random.ambient import next_dataset_seed
from mirrax.tf.tensors.host_tensors import flat_array, host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor, element, is_ragged_tensor
from mirrax.tf.tensors.sparse_tensors import SparseTensor
from mirrax.tf.tensors.tensor_shape import TensorShape

_RANDOM_NUMBERS = 2**32
_TINY = 1e-30
_UNSEEN = 10.0


class DatasetIterator(mirrax.data.DatasetIterator):
    """Iterates over a dataset; elements are tensors."""

    def __next__(self) -> Any:
        return element(super().__next__())


class _Tensors:
    """A mix-in with the methods that differ from `mirrax.data.Dataset`."""

    iterator_type: type[mirrax.data.DatasetIterator] = DatasetIterator

    def __init__(self, *args: Any, name: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def _with_plan(self: Any, plan: Any) -> Dataset:
        return Dataset(plan, self.options())

    def options(self) -> Any:
        """Returns the options in force."""
        return Options().after(super().options())  # type: ignore[misc]

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        synchronous: Any = None,
        use_unbounded_threadpool: bool = False,
    ) -> Any:
        function = _on_tensors(map_func)
        return super().map(function, num_parallel_calls, deterministic)  # type: ignore[misc]

    def filter(self, predicate: Callable[..., Any]) -> Any:
        return super().filter(_condition(predicate))  # type: ignore[misc]

    def shuffle(
        self: Any,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = None,
    ) -> Any:
        reshuffle = reshuffle_each_iteration is not False
        made = mirrax.data.Dataset.shuffle(self, buffer_size, seed, reshuffle)
        if seed is not None or (drawn := next_dataset_seed()) is None:
            return made
        plan: Any = made.plan
        return self._with_plan(dataclasses.replace(plan, seed=drawn))

    def take_while(self, predicate: Callable[..., Any]) -> Any:
        return super().take_while(_condition(predicate))  # type: ignore[misc]

    def concatenate(self: Any, dataset: Any) -> Any:
        made = mirrax.data.Dataset.concatenate(self, dataset)
        require_same_types(self, dataset)
        return made

    def padded_batch(
        self: Any,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        few_lengths: bool = False,
    ) -> Any:
        require_padding(self, padded_shapes, padding_values)
        options = (padded_shapes, padding_values, drop_remainder, few_lengths)
        return mirrax.data.Dataset.padded_batch(self, batch_size, *options)

    def unbatch(self: Any) -> Any:
        require_rows(self)
        return mirrax.data.Dataset.unbatch(self)

    def flat_map(self, map_func: Callable[..., Any]) -> Any:
        return super().flat_map(with_present_names(map_func))  # type: ignore[misc]

    def interleave(
        self, map_func: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        map_func = with_present_names(map_func)
        return super().interleave(map_func, *args, **kwargs)  # type: ignore[misc]

    def scan(self, initial_state: Any, scan_func: Callable[..., Any]) -> Any:
        function = with_present_names(scan_func)
        return super().scan(initial_state, function)  # type: ignore[misc]

    def ragged_batch(
        self: Any, batch_size: int, drop_remainder: bool = False, **_: Any
    ) -> Any:
        """Batches elements of different lengths: they become ragged tensors."""
        spec = self.element_spec
        is_ragged = jax.tree.map(_varies, spec, is_leaf=is_ragged_tensor)

        def with_lengths(*values: Any) -> Any:
            given = values if isinstance(spec, tuple) else values[0]
            return jax.tree.map(_row, is_ragged, given)

        return mirrax.data.Dataset.padded_batch(
            self.map(with_lengths), batch_size, drop_remainder=drop_remainder
        )

    def sparse_batch(
        self: Any, batch_size: int, row_shape: Any, name: Any = None
    ) -> Any:
        """Batches elements of different shapes: they become sparse tensors."""
        shape = TensorShape(row_shape)

        def sparse(value: Any) -> SparseTensor:
            return SparseTensor.of_dense(value, np.ones(value.shape, bool))

        padded = SparseTensor.of_dense(shape, shape)
        return mirrax.data.Dataset.padded_batch(self.map(sparse), batch_size, padded)

    def snapshot(self: Any, path: Any, *_: Any, **__: Any) -> Any:
        """Keeps the elements of the first iteration in a directory."""
        folder = path_of(path)
        os.makedirs(folder, exist_ok=True)
        return self.cache(os.path.join(folder, "elements"))

    def rejection_resample(
        self: Any,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Returns pairs of a class and an element, as many of each class as wanted.

        Elements of the other classes are left out at random.

        Args:
            class_func: Returns the class of an element, an integer.
            target_dist: The share of each class in the result.
            initial_dist: The share of each class in this dataset; by default, that of
                its elements so far.
            seed: The random seed.
        """
        target = np.asarray(target_dist, float)
        known = None if initial_dist is None else np.asarray(initial_dist, float)

        def chosen(counts: Any, drawn: Any) -> Any:
            number, (label, element) = drawn
            counts = counts + (np.arange(len(target)) == label)
            ratios = target / (counts if known is None else np.maximum(known, _TINY))
            share = ratios[label] / ratios.max()
            return counts, (number < share * _RANDOM_NUMBERS, (label, element))

        is_split = isinstance(self.element_spec, tuple)
        labelled = self.map(
            lambda *parts: (class_func(*parts), parts if is_split else parts[0])
        )
        numbers = Dataset.random(seed, rerandomize_each_iteration=seed is None)
        drawn = Dataset.zip((numbers, labelled))
        # Starts as if some of each class had been there, which smooths the shares.
        kept = drawn.scan(np.full(len(target), _UNSEEN), chosen)
        return kept.filter(lambda is_kept, pair: is_kept).map(
            lambda is_kept, pair: pair
        )

    def prefetch(self, buffer_size: Any) -> Any:
        given = mirrax.data.AUTOTUNE if buffer_size is None else buffer_size
        return super().prefetch(given)  # type: ignore[misc]

    def cardinality(self) -> Any:
        return host(np.int64(super().cardinality()))  # type: ignore[misc]

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        state = jax.tree.map(host, _in_32_bits(initial_state))
        return jax.tree.map(host, super().reduce(state, reduce_func))  # type: ignore[misc]

    def get_single_element(self: Any) -> Any:
        """Returns the only element."""
        found = list(self.take(2))
        if len(found) != 1:
            count = "none" if not found else "several"
            raise InvalidArgumentError(
                f"The dataset must have exactly one element. Received: {count}. Use "
                "`take(1)`, or iterate over it."
            )
        return found[0]

    def save(
        self: Any, path: Any, compression: Any = None, shard_func: Any = None, **_: Any
    ) -> None:
        """Writes all elements into a directory, for `Dataset.load`."""
        mirrax.data.Dataset.save(self, path)

    def make_one_shot_iterator(self: Any) -> Any:
        """Returns an iterator, as datasets of version 1 do."""
        return iter(self)

    def make_initializable_iterator(self: Any) -> InputIterator:
        """Returns an iterator that can be restarted, as datasets of version 1 do."""
        return InputIterator(self)

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(type(self), name):
            # A property whose function raised an AttributeError: raises that again.
            object.__getattribute__(self, name)
        full = f"tf.data.Dataset.{name}"
        advice = "" if name.startswith("_") else f" {replacement_of(full)}"
        raise AttributeError(f"`mirrax.tf` has no `{full}`.{advice}", name=name)


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that also takes TensorFlow's `name`, which has no effect."""

    @functools.wraps(function)
    def called(*args: Any, name: Any = None, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return called


def _made_by(make: Callable[..., mirrax.data.Dataset]) -> Any:
    """Returns a constructor of Mirrax, as one of a dataset of tensors."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Dataset:
        return as_tensors(make(*args, **kwargs))

    return staticmethod(_named(made))


class Dataset(_Tensors, mirrax.data.Dataset):
    """`tf.data.Dataset`."""

    counter = _made_by(mirrax.data.Dataset.counter)
    random = _made_by(mirrax.data.Dataset.random)

    @staticmethod
    def choose_from_datasets(
        datasets: Any,
        choice_dataset: Any,
        stop_on_empty_dataset: bool = True,
        name: Any = None,
    ) -> Dataset:
        require_same_types(*datasets)
        choose = mirrax.data.Dataset.choose_from_datasets
        return as_tensors(choose(datasets, choice_dataset, stop_on_empty_dataset))

    @staticmethod
    def sample_from_datasets(
        datasets: Any,
        weights: Any = None,
        seed: Any = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
        name: Any = None,
    ) -> Dataset:
        require_same_types(*datasets)
        sample = mirrax.data.Dataset.sample_from_datasets
        given = (weights, seed, stop_on_empty_dataset, rerandomize_each_iteration)
        return as_tensors(sample(datasets, *given))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: Any = None) -> Dataset:
        dataset = mirrax.data.Dataset.from_tensor_slices(_in_32_bits(tensors))
        return as_tensors(dataset)

    @staticmethod
    def from_tensors(tensors: Any, name: Any = None) -> Dataset:
        return as_tensors(mirrax.data.Dataset.from_tensors(_in_32_bits(tensors)))

    @staticmethod
    def range(*args: Any, output_type: Any = np.int64, name: Any = None) -> Dataset:
        numbers = mirrax.data.Dataset.range(*args)
        if np.dtype(output_type) != np.int64:
            numbers = numbers.map(lambda number: number.astype(output_type))
        return as_tensors(numbers)

    @staticmethod
    def load(path: Any, element_spec: Any = None, compression: Any = None) -> Dataset:
        """Returns the dataset that `save` wrote into a directory."""
        return as_tensors(mirrax.data.Dataset.load(path))

    @staticmethod
    def from_generator(  # type: ignore[override]
        generator: Any,
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
        name: Any = None,
    ) -> Dataset:
        """Returns a dataset of the elements that a generator yields.

        Args:
            generator: A function that returns an iterable.
            output_types: The dtypes, instead of `output_signature`.
            output_shapes: The shapes, with `output_types`; unknown by default.
            args: Arguments of the function.
            output_signature: The shapes and dtypes.
        """
        if output_signature is None:
            output_signature = _signature(output_types, output_shapes)
        # As in TensorFlow, the generator gets them as NumPy's.
        given = () if args is None else tuple(flat_array(x)[()] for x in args)
        make = (lambda: generator(*given)) if callable(generator) else generator
        return as_tensors(mirrax.data.Dataset.from_generator(make, output_signature))

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: Any = None, seed: Any = None, name: Any = None
    ) -> Dataset:
        patterns = np.asarray(file_pattern, object).ravel().tolist()
        texts = [p.decode() if isinstance(p, bytes) else str(p) for p in patterns]
        try:
            files = as_tensors(mirrax.data.Dataset.list_files(texts, shuffle=False))
        except NotFoundError as error:
            raise InvalidArgumentError(str(error)) from error
        is_shuffled = shuffle is None or shuffle
        return files.shuffle(len(files), seed) if is_shuffled else files

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: Any = None) -> Dataset:
        given = args if datasets is None else (datasets,)
        return as_tensors(mirrax.data.Dataset.zip(*given))


for _name, _method in inspect.getmembers_static(Dataset, inspect.isfunction):
    if not _name.startswith("_"):
        setattr(_Tensors, _name, _named(_method))


class TFRecordDataset(_Tensors, mirrax.data.TFRecordDataset):
    """`tf.data.TFRecordDataset`."""


class TextLineDataset(_Tensors, mirrax.data.TextLineDataset):
    """`tf.data.TextLineDataset`."""


class FixedLengthRecordDataset(_Tensors, mirrax.data.FixedLengthRecordDataset):
    """`tf.data.FixedLengthRecordDataset`."""


def _on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of tensors whose result, if a list, is a tuple of components.

    Strings and other values on the host become tensors.
    """
    function = with_present_names(function)

    @functools.wraps(function)
    def called(*values: Any) -> Any:
        made = function(*element(values))
        return _in_32_bits(tuple(made) if isinstance(made, list) else made)

    return called


def _condition(predicate: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of tensors that must return one truth value."""
    function = _on_tensors(predicate)

    @functools.wraps(predicate)
    def called(*values: Any) -> Any:
        made = function(*values)
        if np.ndim(made) or np.asarray(made).dtype != bool:
            raise ValueError(
                "`predicate` must return one truth value, a scalar of dtype bool. "
                f"Received: {made!r}. Compare it, or use `tf.reduce_all`."
            )
        return made

    return called


def _in_32_bits(tree: Any) -> Any:
    """Returns a structure with Python's numbers, and lists of them, as TensorFlow's."""
    return jax.tree.map(_tensor_of_numbers, tree, is_leaf=_is_list)


def _tensor_of_numbers(value: Any) -> Any:
    if type(value) not in (list, int, float):
        return value
    kinds = {type(number) for number in jax.tree.leaves(value)}
    if not kinds or not kinds <= {int, float}:
        return value
    try:
        array = np.asarray(value, np.float32 if float in kinds else None)
    except ValueError as error:
        raise ValueError(
            "Lists must be rows of the same length to be a tensor. Received: "
            f"{reprlib.repr(value)}. Pad them, or use `tf.ragged.constant`."
        ) from error
    if array.dtype == object:
        raise ValueError(
            "Whole numbers of tensors have at most 64 bits. Received: "
            f"{reprlib.repr(value)}. Give them as floats."
        )
    if float in kinds:
        return array
    narrow = array.astype(np.int32)
    return narrow if np.array_equal(narrow, array) else array


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _varies(spec: mirrax.TensorSpec | RaggedTensor) -> bool:
    """Returns whether elements may differ in length; texts in lists usually do."""
    if is_ragged_tensor(spec):
        return True
    is_texts = spec.dtype == object and spec.shape != ()
    return spec.shape is None or spec.shape[:1] == (None,) or is_texts


def _row(is_ragged: bool, value: Any) -> Any:
    return RaggedTensor(value, np.int64(len(value))) if is_ragged else value


def as_tensors(dataset: mirrax.data.Dataset) -> Dataset:
    """Returns a Mirrax dataset as one whose elements are tensors."""
    return Dataset(dataset.plan, dataset.options())


def _signature(types: Any, shapes: Any) -> Any:
    if types is None:
        raise TypeError(
            "`from_generator` needs `output_signature` or `output_types`. Received: "
            "neither. Use `output_signature=tf.TensorSpec(shape, dtype)`."
        )
    if shapes is None:
        return jax.tree.map(lambda dtype: mirrax.TensorSpec(None, dtype), types)
    return jax.tree.map(
        lambda dtype, shape: mirrax.TensorSpec(shape, dtype), types, shapes
    )
