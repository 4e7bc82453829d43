"""`tf.data.experimental`."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax.data import AUTOTUNE as AUTOTUNE
from mirrax.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data import SHARD_HINT as SHARD_HINT
from mirrax.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data import AutoShardPolicy as AutoShardPolicy
from mirrax.data import DistributeOptions as DistributeOptions
from mirrax.data import TFRecordWriter as TFRecordWriter
from mirrax.tf.data.csv_files import CsvDataset as CsvDataset
from mirrax.tf.data.csv_files import make_csv_dataset as make_csv_dataset
from mirrax.tf.data.datasets import Dataset, TFRecordDataset
from mirrax.tf.io.records import parse_example
from mirrax.tf.missing_names import names_of

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


# Transformations for `Dataset.apply`.


def _method(name: str) -> Callable[..., Transformation]:
    """Returns a transformation that calls a method of the dataset."""
    return lambda *args, **kwargs: (
        lambda dataset: getattr(dataset, name)(*args, **kwargs)
    )


assert_cardinality = _method("assert_cardinality")
bucket_by_sequence_length = _method("bucket_by_sequence_length")
enumerate_dataset = _method("enumerate")
group_by_window = _method("group_by_window")
scan = _method("scan")
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


def shuffle_and_repeat(
    buffer_size: int, count: Any = None, seed: Any = None
) -> Transformation:
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


choose_from_datasets = Dataset.choose_from_datasets
sample_from_datasets = Dataset.sample_from_datasets
Counter = Dataset.counter

__getattr__ = names_of("tf.data.experimental")
