"""`tf.profiler.experimental`: JAX's profiler, whose traces TensorBoard shows, too."""

from __future__ import annotations

import contextlib
from typing import Any

import jax

Trace = jax.profiler.TraceAnnotation


def start(logdir: Any, options: Any = None) -> None:
    """Starts a trace of all devices; `options` have no effect."""
    jax.profiler.start_trace(str(logdir))


def stop(save: bool = True) -> None:
    """Ends the trace and writes it."""
    jax.profiler.stop_trace()


def Profile(  # noqa: N802 - TensorFlow's name
    logdir: Any, options: Any = None
) -> contextlib.AbstractContextManager[Any]:
    """Returns a context whose calls are traced."""
    return jax.profiler.trace(str(logdir))
