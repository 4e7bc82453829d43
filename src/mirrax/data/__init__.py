"""Datasets: input pipelines of elements, which are structures of arrays."""

from mirrax.data.adapters import as_dataset as as_dataset
from mirrax.data.dataset import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from mirrax.data.dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from mirrax.data.dataset import Dataset as Dataset
from mirrax.data.dataset_options import SHARD_HINT as SHARD_HINT
from mirrax.data.dataset_options import AutoShardPolicy as AutoShardPolicy
from mirrax.data.dataset_options import DistributeOptions as DistributeOptions
from mirrax.data.dataset_options import Options as Options
from mirrax.data.example import Example as Example
from mirrax.data.example import FixedLenFeature as FixedLenFeature
from mirrax.data.example import VarLenFeature as VarLenFeature
from mirrax.data.example import parse_example as parse_example
from mirrax.data.example import parse_single_example as parse_single_example
from mirrax.data.file_datasets import ArrayRecordDataset as ArrayRecordDataset
from mirrax.data.file_datasets import (
    FixedLengthRecordDataset as FixedLengthRecordDataset,
)
from mirrax.data.file_datasets import ParquetDataset as ParquetDataset
from mirrax.data.file_datasets import TextLineDataset as TextLineDataset
from mirrax.data.file_datasets import TFRecordDataset as TFRecordDataset
from mirrax.data.file_formats.tfrecord import TFRecordWriter as TFRecordWriter
from mirrax.data.iterator import DatasetIterator as DatasetIterator
from mirrax.data.nodes.batching import PaddedInBatches as PaddedInBatches
from mirrax.data.operations import AUTOTUNE as AUTOTUNE
