"""`tf.data`: the datasets of Mirrax."""

from mirrax.data import AUTOTUNE as AUTOTUNE
from mirrax.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data import Dataset as Dataset
from mirrax.data import DatasetIterator as Iterator
from mirrax.data import FixedLengthRecordDataset as FixedLengthRecordDataset
from mirrax.data import Options as Options
from mirrax.data import TextLineDataset as TextLineDataset
from mirrax.data import TFRecordDataset as TFRecordDataset
from mirrax.tf.absent import names_of
from mirrax.tf.data import experimental as experimental

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "experimental",
]

__getattr__ = names_of("tf.data")
