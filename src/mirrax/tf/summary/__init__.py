"""`tf.summary`: scalars, text, images and audio for TensorBoard."""

from mirrax.tf.missing_names import names_of
from mirrax.tf.summary import experimental as experimental
from mirrax.tf.summary.recording import audio as audio
from mirrax.tf.summary.recording import flush as flush
from mirrax.tf.summary.recording import histogram as histogram
from mirrax.tf.summary.recording import image as image
from mirrax.tf.summary.recording import record_if as record_if
from mirrax.tf.summary.recording import scalar as scalar
from mirrax.tf.summary.recording import (
    should_record_summaries as should_record_summaries,
)
from mirrax.tf.summary.recording import text as text
from mirrax.tf.summary.writers import SummaryWriter as SummaryWriter
from mirrax.tf.summary.writers import create_file_writer as create_file_writer
from mirrax.tf.summary.writers import create_noop_writer as create_noop_writer

__getattr__ = names_of("tf.summary")
