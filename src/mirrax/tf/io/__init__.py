"""`tf.io`: records, examples and files."""

from mirrax.data import FixedLenFeature as FixedLenFeature
from mirrax.data import VarLenFeature as VarLenFeature
from mirrax.tf.io import gfile as gfile
from mirrax.tf.io.decoding import decode_csv as decode_csv
from mirrax.tf.io.decoding import decode_raw as decode_raw
from mirrax.tf.io.files import matching_files as matching_files
from mirrax.tf.io.files import read_file as read_file
from mirrax.tf.io.files import write_file as write_file
from mirrax.tf.io.images import *  # noqa: F403
from mirrax.tf.io.records import FixedLenSequenceFeature as FixedLenSequenceFeature
from mirrax.tf.io.records import RaggedFeature as RaggedFeature
from mirrax.tf.io.records import SparseFeature as SparseFeature
from mirrax.tf.io.records import TFRecordOptions as TFRecordOptions
from mirrax.tf.io.records import TFRecordWriter as TFRecordWriter
from mirrax.tf.io.records import parse_example as parse_example
from mirrax.tf.io.records import parse_single_example as parse_single_example
from mirrax.tf.io.tensor_messages import parse_tensor as parse_tensor
from mirrax.tf.io.tensor_messages import serialize_tensor as serialize_tensor
