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
from mirrax.tf.data.datasets import Dataset


def cardinality(dataset: Dataset) -> Any:
    """Returns how many elements a dataset has."""
    return dataset.cardinality()


def assert_cardinality(expected_cardinality: Any) -> Callable[[Any], Any]:
    """Returns what `Dataset.apply` takes to check a number of elements."""
    return lambda dataset: dataset.assert_cardinality(expected_cardinality)


def get_single_element(dataset: Dataset) -> Any:
    """Returns the only element of a dataset."""
    return dataset.get_single_element()


choose_from_datasets = Dataset.choose_from_datasets
sample_from_datasets = Dataset.sample_from_datasets
Counter = Dataset.counter

__getattr__ = names_of("tf.data.experimental")
