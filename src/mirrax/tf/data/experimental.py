"""`tf.data.experimental`."""

from collections.abc import Callable
from typing import Any

from mirrax.data import AUTOTUNE as AUTOTUNE
from mirrax.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data import AutoShardPolicy as AutoShardPolicy
from mirrax.data import DistributeOptions as DistributeOptions
from mirrax.data import TFRecordWriter as TFRecordWriter
from mirrax.tf.absent import names_of
from mirrax.tf.data.csv_files import CsvDataset as CsvDataset
from mirrax.tf.data.csv_files import make_csv_dataset as make_csv_dataset
from mirrax.tf.data.datasets import Dataset
from mirrax.tf.data.transformations import (
    bucket_by_sequence_length as bucket_by_sequence_length,
)
from mirrax.tf.data.transformations import copy_to_device as copy_to_device
from mirrax.tf.data.transformations import enumerate_dataset as enumerate_dataset
from mirrax.tf.data.transformations import group_by_window as group_by_window
from mirrax.tf.data.transformations import map_and_batch as map_and_batch
from mirrax.tf.data.transformations import parallel_interleave as parallel_interleave
from mirrax.tf.data.transformations import prefetch_to_device as prefetch_to_device
from mirrax.tf.data.transformations import scan as scan
from mirrax.tf.data.transformations import shuffle_and_repeat as shuffle_and_repeat
from mirrax.tf.data.transformations import take_while as take_while
from mirrax.tf.data.transformations import unbatch as unbatch
from mirrax.tf.data.transformations import unique as unique


def cardinality(dataset: Dataset) -> Any:
    """Returns how many elements a dataset has."""
    return dataset.cardinality()


def assert_cardinality(expected_cardinality: Any) -> Callable[[Any], Any]:
    """Returns what `Dataset.apply` takes to check a number of elements."""
    return lambda dataset: dataset.assert_cardinality(expected_cardinality)


def get_single_element(dataset: Dataset) -> Any:
    """Returns the only element of a dataset."""
    return dataset.get_single_element()


def get_next_as_optional(iterator: Any) -> Any:
    """Returns the next element of an iterator, or that there is none."""
    return iterator.get_next_as_optional()


def save(dataset: Dataset, path: Any, *_: Any, **__: Any) -> None:
    """Writes a dataset into a folder."""
    dataset.save(path)


def load(path: Any, *_: Any, **__: Any) -> Dataset:
    """Returns the dataset that `save` wrote."""
    return Dataset.load(path)


choose_from_datasets = Dataset.choose_from_datasets
sample_from_datasets = Dataset.sample_from_datasets
Counter = Dataset.counter

__getattr__ = names_of("tf.data.experimental")
