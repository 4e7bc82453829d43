"""`tf.data.experimental`."""

from mirrax.data import AUTOTUNE as AUTOTUNE
from mirrax.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data import AutoShardPolicy as AutoShardPolicy
from mirrax.data import Dataset
from mirrax.data import DistributeOptions as DistributeOptions
from mirrax.data import TFRecordWriter as TFRecordWriter
from mirrax.tf.absent import names_of


def cardinality(dataset: Dataset) -> int:
    """Returns how many elements a dataset has."""
    return dataset.cardinality()


__getattr__ = names_of("tf.data.experimental")
