"""Traces of functions: there are no graphs; `tf.profiler` records what runs."""

from __future__ import annotations

from typing import Any


def trace_on(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


def trace_off() -> None:
    """Does nothing."""


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Writes nothing."""
