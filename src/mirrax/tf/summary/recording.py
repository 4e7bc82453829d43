"""Writing to the writer in force."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jax
import numpy as np


class Writer(Protocol):
    """What numbers can be written to."""

    def write_scalar(self, tag: str, value: float, step: int) -> None: ...

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
    """Makes a writer, and a step if one is given, those in force."""
    changes = {"writer": writer} | ({} if step is None else {"step": step})
    with _changed(**changes):
        yield
        writer.flush()


@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Makes scalars be written only if the condition, or its result, holds."""
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
    state = _state.get()
    if not should_record_summaries():
        return False
    at = state.step if step is None else step
    if at is None:
        raise ValueError(
            f"A summary needs a step. Received: none for {name!r}. Use `step=...`, "
            "`writer.as_default(step)` or `tf.summary.experimental.set_step`."
        )
    write = _write_to(state.writer, name)
    value, at = (jax.numpy.asarray(x) for x in (data, at))
    if value.ndim:
        raise ValueError(
            f"A scalar summary takes one number. Received: shape {value.shape} for "
            f"{name!r}. Reduce it first."
        )
    if isinstance(value, jax.core.Tracer) or isinstance(at, jax.core.Tracer):
        jax.debug.callback(write, value, at)
    else:
        write(value, at)
    return True


def _write_to(writer: Any, name: str) -> Callable[[Any, Any], None]:
    def write(value: Any, step: Any) -> None:
        writer.write_scalar(name, float(np.asarray(value)), int(np.asarray(step)))

    return write


def flush(writer: Any = None, name: Any = None) -> None:
    """Hands what was written to the operating system."""
    chosen = _state.get().writer if writer is None else writer
    if chosen is not None:
        chosen.flush()
