"""Files of records and elements: readers, writers, formats."""

from mirrax.data.file_formats.reader import FixedLengthReader as FixedLengthReader
from mirrax.data.file_formats.reader import Reader as Reader
from mirrax.data.file_formats.reader import TextLineReader as TextLineReader
from mirrax.data.file_formats.tfrecord import TFRecordReader as TFRecordReader
