"""`tf.summary`: the summaries of `mirrax.summary`."""

from __future__ import annotations

from typing import Any

from mirrax.summary import SummaryWriter as SummaryWriter
from mirrax.summary import audio as audio
from mirrax.summary import create_file_writer as create_file_writer
from mirrax.summary import create_noop_writer as create_noop_writer
from mirrax.summary import flush as flush
from mirrax.summary import histogram as histogram
from mirrax.summary import image as image
from mirrax.summary import record_if as record_if
from mirrax.summary import scalar as scalar
from mirrax.summary import should_record_summaries as should_record_summaries
from mirrax.summary import text as text
from mirrax.summary import write as write
from mirrax.tf.summary import experimental as experimental

# There are no graphs to trace; `tf.profiler` records what runs.


def trace_on(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


def trace_off() -> None:
    """Does nothing."""


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Writes nothing."""
