"""Summaries for TensorBoard: scalars, histograms, text, images and audio."""

from mirrax.summary.recording import SummaryMetadata as SummaryMetadata
from mirrax.summary.recording import audio as audio
from mirrax.summary.recording import flush as flush
from mirrax.summary.recording import get_step as get_step
from mirrax.summary.recording import histogram as histogram
from mirrax.summary.recording import image as image
from mirrax.summary.recording import record_if as record_if
from mirrax.summary.recording import scalar as scalar
from mirrax.summary.recording import set_step as set_step
from mirrax.summary.recording import should_record_summaries as should_record_summaries
from mirrax.summary.recording import text as text
from mirrax.summary.recording import write as write
from mirrax.summary.writers import SummaryWriter as SummaryWriter
from mirrax.summary.writers import create_file_writer as create_file_writer
from mirrax.summary.writers import create_noop_writer as create_noop_writer
