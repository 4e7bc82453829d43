"""`tf.data.experimental`."""

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import mirrax
from mirrax.data import AUTOTUNE as AUTOTUNE
from mirrax.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data import SHARD_HINT as SHARD_HINT
from mirrax.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data import AutoShardPolicy as AutoShardPolicy
from mirrax.data import DistributeOptions as DistributeOptions
from mirrax.tf.data.csv_files import CsvDataset as CsvDataset
from mirrax.tf.data.csv_files import make_csv_dataset as make_csv_dataset
from mirrax.tf.data.datasets import Dataset, TFRecordDataset
from mirrax.tf.data.options import Accepted
from mirrax.tf.data.sql_files import SqlDataset as SqlDataset
from mirrax.tf.dtypes import string
from mirrax.tf.io.files import path_of
from mirrax.tf.io.records import parse_example
from mirrax.tf.lookup.initializers import KeyValueTensorInitializer
from mirrax.tf.lookup.static_tables import StaticHashTable, StaticVocabularyTable

Transformation = Callable[[Any], Any]


def cardinality(dataset: Dataset) -> Any:
    """Returns the number of elements of a dataset."""
    return dataset.cardinality()


def get_structure(dataset_or_iterator: Any) -> Any:
    """Returns the shapes and dtypes of the elements."""
    return dataset_or_iterator.element_spec


def get_single_element(dataset: Dataset) -> Any:
    """Returns the only element of a dataset."""
    return dataset.get_single_element()


def get_next_as_optional(iterator: Any) -> Any:
    """Returns the next element of an iterator as an optional."""
    return iterator.get_next_as_optional()


class _OptionalType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, type(Optional.from_value(0)))


class Optional(metaclass=_OptionalType):
    """`tf.experimental.Optional`: an element, or none."""

    @staticmethod
    def from_value(value: Any) -> Any:
        return iter(Dataset.from_tensors(value)).get_next_as_optional()

    @staticmethod
    def empty(element_spec: Any) -> Any:
        nothing = Dataset.from_generator(tuple, output_signature=element_spec)
        return iter(nothing).get_next_as_optional()


def save(dataset: Dataset, path: Any, *_: Any, **__: Any) -> None:
    """Writes a dataset into a directory."""
    dataset.save(path)


def load(path: Any, *_: Any, **__: Any) -> Dataset:
    """Returns the dataset that `save` wrote."""
    return Dataset.load(path)


def from_list(elements: Sequence[Any], name: Any = None) -> Any:
    """Returns the dataset of a list of elements with the same structure."""
    if not elements:
        raise ValueError("`from_list` needs an element. Received: an empty list.")
    # Lists are tensors, not structures.
    leaves = [jax.tree.leaves(x, is_leaf=_is_list) for x in elements]
    columns = [list(column) for column in zip(*leaves, strict=True)]
    structure = jax.tree.structure(elements[0], is_leaf=_is_list)
    return Dataset.from_tensor_slices(jax.tree.unflatten(structure, columns))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: int,
    features: Any,
    reader: Callable[..., Any] = TFRecordDataset,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    reader_num_threads: int = 1,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Returns batches of the examples in files as dicts of features.

    With `label_key`, they are pairs of the features and that label.
    """
    files = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    records: Any = files.interleave(
        lambda path: reader(path, *(reader_args or ())), max(reader_num_threads, 1)
    )
    if shuffle:
        records = records.shuffle(shuffle_buffer_size, shuffle_seed)
    is_cut = drop_final_batch or num_epochs is None
    batches = records.repeat(num_epochs).batch(batch_size, is_cut)

    def parsed(*record: Any) -> Any:
        # Some readers give pairs of a key and an example.
        found = parse_example(record[-1], features)
        return found if label_key is None else (found, found.pop(label_key))

    return batches.map(parsed, parser_num_threads).prefetch(prefetch_buffer_size or 1)


class TFRecordWriter:
    """Writes the elements of a dataset, which are strings, to a TFRecord file.

    Args:
        filename: The file.
        compression_type: "GZIP" or "ZLIB"; None for no compression.
    """

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        self._file = (path_of(filename), compression_type or "")

    def write(self, dataset: Dataset) -> None:
        if dataset.element_spec != mirrax.TensorSpec((), string):
            raise TypeError(
                "The elements of a dataset that is written to a TFRecord file must be "
                f"strings. Received: elements of {dataset.element_spec}. Map them to "
                "`example.SerializeToString()`."
            )
        with mirrax.data.TFRecordWriter(*self._file) as writer:
            for record in dataset.as_numpy_iterator():
                writer.write(record)


class DatasetInitializer(KeyValueTensorInitializer):
    """The keys and values of a table: the elements of a dataset, which are pairs."""

    def __init__(self, dataset: Dataset) -> None:
        pairs = list(dataset.as_numpy_iterator())
        if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
            raise ValueError(
                "The elements of a dataset for a table must be pairs, of a key and a "
                f"value. Received: {pairs[0]!r}. Map them to such pairs."
            )
        super().__init__(*zip(*pairs, strict=True))


def table_from_dataset(
    dataset: Any,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = None,
    hasher_spec: Any = None,
    key_dtype: Any = None,
    name: Any = None,
) -> Any:
    """Returns a table of the elements of a dataset, which are pairs.

    Args:
        dataset: The keys and values.
        num_oov_buckets: How many numbers other keys get; the values must be numbers.
        vocab_size: How many elements are used; all by default.
        default_value: The value of other keys, if there are no buckets.
        hasher_spec: Ignored.
        key_dtype: Ignored: that of the elements is used.
        name: Ignored.
    """
    count = -1 if vocab_size is None else vocab_size
    initializer = DatasetInitializer(dataset.take(count))
    if num_oov_buckets:
        return StaticVocabularyTable(initializer, num_oov_buckets)
    return StaticHashTable(initializer, default_value)


def index_table_from_dataset(
    dataset: Any,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = -1,
    hasher_spec: Any = None,
    key_dtype: Any = None,
    name: Any = None,
) -> Any:
    """Returns a table of the numbers of elements, as `table_from_dataset`."""
    pairs = dataset.enumerate().map(lambda number, key: (key, number))
    return table_from_dataset(pairs, num_oov_buckets, vocab_size, default_value)


class ExternalStatePolicy(enum.Enum):
    """What to do about functions with a state; Mirrax always saves positions."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


@dataclasses.dataclass(frozen=True)
class Reducer:
    """How `group_by_reducer` reduces the elements with the same key."""

    init_func: Callable[[Any], Any]
    reduce_func: Callable[..., Any]
    finalize_func: Callable[..., Any]


# Transformations for `Dataset.apply`.


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """Reduces all elements that have the same key to one element."""

    def reduced(key: Any, group: Any) -> Any:
        state = group.reduce(reducer.init_func(key), reducer.reduce_func)
        parts = state if isinstance(state, tuple) else (state,)
        return Dataset.from_tensors(reducer.finalize_func(*parts))

    everything = np.iinfo(np.int64).max
    return lambda dataset: dataset.group_by_window(key_func, reduced, everything)


def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Transformation:
    """Appends elements of zeros; the feature `mask_key` says which are real."""

    def padded(dataset: Any) -> Any:
        missing = cardinality - int(dataset.cardinality())
        spec = dataset.element_spec
        if missing < 0 or int(dataset.cardinality()) < 0 or not isinstance(spec, dict):
            raise ValueError(
                "`pad_to_cardinality` needs a dataset of dicts, with a known number of "
                f"at most {cardinality} elements. Received: {dataset.cardinality()} "
                f"elements of {spec}."
            )
        if mask_key in spec:
            raise ValueError(
                "`mask_key` must not be a feature of the dataset. Received: "
                f"{mask_key!r}, of {list(spec)}."
            )
        zeros = jax.tree.map(_zeros, spec) | {mask_key: np.False_}
        real = dataset.map(lambda features: {**features, mask_key: np.True_})
        return real.concatenate(Dataset.from_tensors(zeros).repeat(missing))

    return padded


def _zeros(spec: mirrax.TensorSpec) -> Any:
    shape = [0 if size is None else size for size in spec.shape or ()]
    return np.full(shape, b"" if spec.dtype == string else 0, spec.dtype)


def _method(name: str) -> Callable[..., Transformation]:
    """Returns a transformation that calls a method of the dataset."""
    return lambda *args, **kwargs: (
        lambda dataset: getattr(dataset, name)(*args, **kwargs)
    )


assert_cardinality = _method("assert_cardinality")
bucket_by_sequence_length = _method("bucket_by_sequence_length")
dense_to_sparse_batch = _method("sparse_batch")
enumerate_dataset = _method("enumerate")
group_by_window = _method("group_by_window")
ignore_errors = _method("ignore_errors")
rejection_resample = _method("rejection_resample")
scan = _method("scan")
snapshot = _method("snapshot")
take_while = _method("take_while")
unbatch = _method("unbatch")
unique = _method("unique")


def dense_to_ragged_batch(
    batch_size: int, drop_remainder: bool = False, **_: Any
) -> Transformation:
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder)


def map_and_batch(
    map_func: Any,
    batch_size: int,
    num_parallel_batches: Any = None,
    drop_remainder: bool = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    return lambda dataset: dataset.map(map_func, num_parallel_calls).batch(
        batch_size, drop_remainder
    )


def parallel_interleave(
    map_func: Any,
    cycle_length: int,
    block_length: int = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Transformation:
    """Interleaves datasets in a deterministic order."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)


def prefetch_to_device(device: Any, buffer_size: Any = None) -> Transformation:
    """Prefetches; the strategy or JAX chooses the device."""
    return lambda dataset: dataset.prefetch(2 if buffer_size is None else buffer_size)


def copy_to_device(target_device: Any, source_device: str = "") -> Transformation:
    """Does nothing: elements are copied to a device when they are used there."""
    return lambda dataset: dataset


def parse_example_dataset(
    features: Any, num_parallel_calls: int = 1, deterministic: Any = None
) -> Transformation:
    """Parses batches of serialized examples into dicts of features."""
    return lambda dataset: dataset.map(
        lambda records: parse_example(records, features), num_parallel_calls
    )


def shuffle_and_repeat(
    buffer_size: int, count: Any = None, seed: Any = None
) -> Transformation:
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


AutotuneOptions = OptimizationOptions = ThreadingOptions = Accepted
choose_from_datasets = Dataset.choose_from_datasets
sample_from_datasets = Dataset.sample_from_datasets
Counter = Dataset.counter
RandomDataset = Dataset.random
