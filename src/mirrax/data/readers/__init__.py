"""Readers: the records of files, one format per module."""

from mirrax.data.readers.base import Reader as Reader
from mirrax.data.readers.fixed_length import FixedLengthReader as FixedLengthReader
from mirrax.data.readers.text import TextLineReader as TextLineReader
from mirrax.data.readers.tfrecord import TFRecordReader as TFRecordReader
