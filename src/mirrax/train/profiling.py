"""Traces some steps of a training loop with JAX's profiler."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable
from typing import TypeVar

import jax

from mirrax.train.worker_sync import current_peers

T = TypeVar("T")


def profile(
    steps: Iterable[T], logdir: str, *, first: int = 10, count: int = 5
) -> Generator[T, None, None]:
    """Yields the elements of `steps`, and traces some of them with `jax.profiler`.

    The trace shows the steps by number, what the devices compute in each, and what
    Python does meanwhile. Look at it with TensorBoard's profile plugin or Perfetto.
    Only the first worker writes one. Warns at the end if there were too few steps.

    Args:
        steps: What to iterate over, such as batches or a `mirrax.train.Progress`.
        logdir: Where the trace is written.
        first: The first step to trace; those before it compile and warm up.
        count: The number of steps to trace.

    >>> import pathlib
    >>> import tempfile
    >>> logdir = tempfile.mkdtemp()
    >>> total = 0
    >>> for step in mirrax.profile(range(8), logdir, first=3, count=2):
    ...     total += step
    >>> len(list(pathlib.Path(logdir).rglob("*.xplane.pb")))
    1
    """
    if first < 0 or count < 1:
        raise ValueError(
            "`profile` traces at least one step, and steps count from 0. Received: "
            f"first={first}, count={count}."
        )
    # An unusable folder is an error now, not when the trace is written.
    os.makedirs(logdir, exist_ok=True)
    is_tracing = False
    number = -1
    try:
        for number, element in enumerate(steps):
            if number == first and current_peers().is_chief:
                jax.profiler.start_trace(logdir)
                is_tracing = True
            if not is_tracing:
                yield element
                continue
            with jax.profiler.StepTraceAnnotation("step", step_num=number):
                yield element
            if number == first + count - 1:
                is_tracing = False
                _stop()
        if number < first and current_peers().is_chief:
            warnings.warn(
                f"`profile` traced nothing: it begins with step {first}. Received: "
                f"{number + 1} steps. Give a smaller `first`.",
                stacklevel=2,
            )
    finally:
        if is_tracing:
            _stop()


def _stop() -> None:
    try:
        # The devices may still compute the last step.
        jax.block_until_ready(jax.live_arrays())
    finally:
        jax.profiler.stop_trace()
