"""`tf.data`: the datasets of Mirrax."""

from mirrax.data import AUTOTUNE as AUTOTUNE
from mirrax.data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data import DatasetIterator as Iterator
from mirrax.tf.data import experimental as experimental
from mirrax.tf.data.datasets import Dataset as Dataset
from mirrax.tf.data.datasets import FixedLengthRecordDataset as FixedLengthRecordDataset
from mirrax.tf.data.datasets import TextLineDataset as TextLineDataset
from mirrax.tf.data.datasets import TFRecordDataset as TFRecordDataset
from mirrax.tf.data.options import Accepted as ThreadingOptions
from mirrax.tf.data.options import Options as Options
from mirrax.tf.data.specs import DatasetSpec as DatasetSpec

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "ThreadingOptions",
    "experimental",
]
