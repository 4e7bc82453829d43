"""`tf.data.experimental`."""

from collections.abc import Callable
from typing import Any

from mirrax.data import AUTOTUNE as AUTOTUNE
from mirrax.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data import SHARD_HINT as SHARD_HINT
from mirrax.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data import AutoShardPolicy as AutoShardPolicy
from mirrax.data import DistributeOptions as DistributeOptions
from mirrax.data import TFRecordWriter as TFRecordWriter
from mirrax.tf.data.csv_files import CsvDataset as CsvDataset
from mirrax.tf.data.csv_files import make_csv_dataset as make_csv_dataset
from mirrax.tf.data.datasets import Dataset
from mirrax.tf.missing_names import names_of

Transformation = Callable[[Any], Any]


def cardinality(dataset: Dataset) -> Any:
    """Returns the number of elements of a dataset."""
    return dataset.cardinality()


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
