"""Writing of summaries to the default writer."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jax
import numpy as np

from mirrax.tf.summary import events
from mirrax.tf.tensors import is_traced, string_tensor


class Writer(Protocol):
    """Where summaries are written."""

    def write(self, tag: str, content: bytes, step: int) -> None: ...

    def flush(self) -> None: ...


@dataclasses.dataclass(frozen=True)
class _State:
    writer: Writer | None = None
    step: Any = None
    condition: Any = True


_state: contextvars.ContextVar[_State] = contextvars.ContextVar(
    "summary",
    default=_State(),  # noqa: B039 - it is frozen
)


@contextlib.contextmanager
def recording_to(writer: Writer, step: Any) -> Iterator[None]:
    """Makes a writer, and a step if it is given, the default."""
    changes = {"writer": writer} | ({} if step is None else {"step": step})
    with _changed(**changes):
        yield
        writer.flush()


@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Writes summaries only if the condition, or its result, is true."""
    with _changed(condition=condition):
        yield


@contextlib.contextmanager
def _changed(**changes: Any) -> Iterator[None]:
    token = _state.set(dataclasses.replace(_state.get(), **changes))
    try:
        yield
    finally:
        _state.reset(token)


def should_record_summaries() -> bool:
    state = _state.get()
    condition = state.condition() if callable(state.condition) else state.condition
    return state.writer is not None and bool(condition)


def get_step() -> Any:
    return _state.get().step


def set_step(step: Any) -> None:
    _state.set(dataclasses.replace(_state.get(), step=step))


def scalar(name: str, data: Any, step: Any = None, description: Any = None) -> bool:
    """Writes a number for a step; returns whether it was written.

    In compiled code the number is written when the code runs.
    """
    shape = np.shape(data)
    if shape:
        raise ValueError(
            f"A scalar summary takes one number. Received: shape {shape} for "
            f"{name!r}. Reduce it first."
        )
    return _record(name, data, step, lambda value: events.scalar(float(value)))


def histogram(
    name: str,
    data: Any,
    step: Any = None,
    buckets: int | None = None,
    description: Any = None,
) -> bool:
    """Writes a histogram of values; returns whether it was written."""
    count = 30 if buckets is None else int(buckets)
    return _record(name, data, step, lambda value: events.histogram(value, count))


def text(name: str, data: Any, step: Any = None, description: Any = None) -> bool:
    """Writes text, or an array of texts; returns whether it was written."""
    strings = string_tensor(data)
    content = events.text(list(strings.flat), strings.shape)
    return _record(name, 0, step, lambda _: content)


def image(
    name: str,
    data: Any,
    step: Any = None,
    max_outputs: int = 3,
    description: Any = None,
) -> bool:
    """Writes images (k x height x width x channels), floats in [0, 1] or bytes."""
    _require_rank(name, data, 4, "images", "[k, height, width, channels]")
    return _record(name, data, step, lambda x: events.images(x[: int(max_outputs)]))


def audio(
    name: str,
    data: Any,
    sample_rate: int,
    step: Any = None,
    max_outputs: int = 3,
    encoding: Any = None,
    description: Any = None,
) -> bool:
    """Writes sounds (k x samples x channels), floats in [-1, 1]."""
    _require_rank(name, data, 3, "sounds", "[k, samples, channels]")
    rate, count = int(sample_rate), int(max_outputs)
    return _record(name, data, step, lambda x: events.sounds(x[:count], rate))


def _require_rank(name: str, data: Any, rank: int, kind: str, axes: str) -> None:
    shape = np.shape(data)
    if len(shape) != rank:
        raise ValueError(
            f"Summaries of {kind} must have the axes {axes}. Received: shape {shape} "
            f"for {name!r}. Add an axis with `tf.expand_dims`."
        )


def _record(
    name: str, data: Any, step: Any, encode: Callable[[np.ndarray[Any, Any]], bytes]
) -> bool:
    state = _state.get()
    if not should_record_summaries():
        return False
    at = state.step if step is None else step
    if at is None:
        raise ValueError(
            f"A summary needs a step. Received: no step for {name!r}. Use `step=...`, "
            "`writer.as_default(step)` or `tf.summary.experimental.set_step`."
        )
    writer: Any = state.writer

    def write(value: Any, number: Any) -> None:
        writer.write(name, encode(np.asarray(value)), int(np.asarray(number)))

    value, at = (jax.numpy.asarray(x) for x in (data, at))
    if is_traced((value, at)):
        jax.debug.callback(write, value, at)
    else:
        write(value, at)
    return True


def flush(writer: Any = None, name: Any = None) -> None:
    """Flushes a writer; by default, the default one."""
    chosen = _state.get().writer if writer is None else writer
    if chosen is not None:
        chosen.flush()
