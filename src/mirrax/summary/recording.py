"""Writing of summaries to the default writer."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from mirrax.context import stack
from mirrax.summary import events
from mirrax.values.array_like import as_array


@dataclasses.dataclass(frozen=True)
class _State:
    writer: Any = None
    step: Any = None
    condition: Any = True


def _state() -> _State:
    return stack.summary_state() or _State()


@contextlib.contextmanager
def recording_to(writer: Any, step: Any) -> Iterator[None]:
    """Makes a writer, and a step if it is given, the default."""
    with stack.summarizing(_with_writer(writer, step)):
        yield
        writer.flush()


def set_writer(writer: Any, step: Any) -> None:
    """Makes a writer, and a step if it is given, the default from now on."""
    stack.set_summary_state(_with_writer(writer, step))


def _with_writer(writer: Any, step: Any) -> _State:
    at = get_step() if step is None else step
    return dataclasses.replace(_state(), writer=writer, step=at)


@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Writes summaries only if the condition, or its result, is true.

    >>> with mirrax.summary.create_file_writer("logs").as_default():
    ...     with record_if(False):
    ...         scalar("loss", 0.5, step=1)
    False
    """
    with stack.summarizing(dataclasses.replace(_state(), condition=condition)):
        yield


def should_record_summaries() -> bool:
    """Returns whether summaries are written now.

    >>> should_record_summaries()  # there is no default writer
    False
    """
    state = _state()
    condition = state.condition() if callable(state.condition) else state.condition
    return state.writer is not None and bool(condition)


def get_step() -> Any:
    """Returns the default step.

    >>> with mirrax.summary.create_file_writer("logs").as_default(step=7):
    ...     get_step()
    7
    """
    return _state().step


def set_step(step: Any) -> None:
    """Sets the default step.

    >>> set_step(3)
    >>> get_step()
    3
    >>> set_step(None)
    """
    stack.set_summary_state(dataclasses.replace(_state(), step=step))


def scalar(name: str, data: Any, step: Any = None, description: Any = None) -> bool:
    """Writes a number for a step; returns whether it was written.

    In compiled code the number is written when the code runs.

    >>> with mirrax.summary.create_file_writer("logs").as_default():
    ...     scalar("loss", 0.5, step=1)
    True
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
    """Writes a histogram of values; returns whether it was written.

    Values that are not finite are left out.

    >>> with mirrax.summary.create_file_writer("logs").as_default():
    ...     histogram("weights", [1.0, 2.0, 2.0], step=1)
    True
    """
    count = 30 if buckets is None else int(buckets)
    return _record(name, data, step, lambda value: events.histogram(value, count))


def text(name: str, data: Any, step: Any = None, description: Any = None) -> bool:
    """Writes text, or an array of texts; returns whether it was written.

    >>> with mirrax.summary.create_file_writer("logs").as_default():
    ...     text("note", "a line", step=1)
    True
    """
    content = events.tensor(np.asarray(data, object), "text")
    return _record(name, 0, step, lambda _: content)


def image(
    name: str,
    data: Any,
    step: Any = None,
    max_outputs: int = 3,
    description: Any = None,
) -> bool:
    """Writes images (k x height x width x channels), floats in [0, 1] or bytes.

    >>> with mirrax.summary.create_file_writer("logs").as_default():
    ...     image("digits", np.zeros((1, 8, 8, 1)), step=1)
    True
    """
    _require_rank(name, data, 4, "images", "[k, height, width, channels]")
    if np.shape(data)[-1] not in range(1, 5):
        raise ValueError(
            "An image has 1 to 4 channels: gray or colors, with or without opacity. "
            f"Received: shape {np.shape(data)} for {name!r}."
        )
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
    """Writes sounds (k x samples x channels), floats in [-1, 1].

    >>> with mirrax.summary.create_file_writer("logs").as_default():
    ...     audio("noise", np.zeros((1, 100, 1)), 8_000, step=1)
    True
    """
    _require_rank(name, data, 3, "sounds", "[k, samples, channels]")
    rate, count = int(sample_rate), int(max_outputs)
    return _record(name, data, step, lambda x: events.sounds(x[:count], rate))


def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None) -> bool:
    """Writes a tensor for the plugin of TensorBoard that the metadata name.

    Args:
        metadata: A `SummaryMetadata`.

    >>> with mirrax.summary.create_file_writer("logs").as_default():
    ...     write("values", [1.0, 2.0], step=1)
    True
    """
    plugin = (metadata or SummaryMetadata()).plugin_data
    return _record(
        tag,
        tensor,
        step,
        lambda value: events.tensor(value, plugin.plugin_name, plugin.content),
    )


@dataclasses.dataclass
class PluginData:
    """The plugin of TensorBoard that shows a summary, and data for it."""

    plugin_name: str = ""
    content: bytes = b""


@dataclasses.dataclass
class SummaryMetadata:
    """How TensorBoard shows a summary.

    >>> SummaryMetadata(PluginData("text")).plugin_data.plugin_name
    'text'
    """

    plugin_data: PluginData = dataclasses.field(default_factory=PluginData)


def _require_rank(name: str, data: Any, rank: int, kind: str, axes: str) -> None:
    shape = np.shape(data)
    if len(shape) != rank:
        raise ValueError(
            f"Summaries of {kind} must have the axes {axes}. Received: shape {shape} "
            f"for {name!r}. Add an axis with `data[None]`."
        )


def _record(
    name: str, data: Any, step: Any, encode: Callable[[np.ndarray[Any, Any]], bytes]
) -> bool:
    state = _state()
    if not should_record_summaries():
        return False
    at = state.step if step is None else step
    if at is None:
        raise ValueError(
            f"A summary needs a step. Received: no step for {name!r}. Use `step=...`, "
            "`writer.as_default(step)` or `set_step`."
        )
    writer = state.writer

    def store(value: Any, number: Any) -> None:
        writer.write(name, encode(np.asarray(value)), int(np.asarray(number)))

    data, at = jax.tree.map(as_array, (data, at))
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((data, at))):
        jax.debug.callback(store, jax.numpy.asarray(data), jax.numpy.asarray(at))
    else:
        # Not as arrays of JAX, which have no 64 bits by default, and no text.
        store(data, at)
    return True


def flush(writer: Any = None, name: Any = None) -> None:
    """Flushes a writer; by default, the default one.

    >>> with mirrax.summary.create_file_writer("logs").as_default(step=1):
    ...     _ = scalar("loss", 0.5)
    ...     flush()
    """
    chosen = _state().writer if writer is None else writer
    if chosen is not None:
        chosen.flush()
