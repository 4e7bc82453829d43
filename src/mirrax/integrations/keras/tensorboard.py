"""Keras' TensorBoard callback without TensorFlow: `mirrax.summary` writes the files."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from mirrax.integrations.keras import hooks, internals
from mirrax.lazy_modules import LazyModule

if TYPE_CHECKING:
    from mirrax import summary
else:
    summary = LazyModule("mirrax.summary")

_USED = ("create_file_writer", "histogram", "image", "record_if", "scalar", "write")


def install() -> None:
    """Gives the callback a writer where TensorFlow is not installed."""
    callback = keras.callbacks.TensorBoard
    get = callback.summary.fget
    callback.summary = property(functools.partial(_summary, get))
    hooks.wrap(*internals.WRITE_MODEL, _write_model)


def _summary(original: Callable[[Any], Any], callback: Any) -> Any:
    try:
        return original(callback)
    except ImportError:
        internals.set_summary_module(callback, _ours())
        return _ours()


@functools.cache
def _ours() -> types.SimpleNamespace:
    """Returns our functions as the module `tf.summary` that the callback uses."""
    used = {name: getattr(summary, name) for name in _USED}
    return types.SimpleNamespace(**used, trace_on=_nothing, trace_export=_nothing)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no graph of TensorFlow to trace."""


def _write_model(original: Callable[[Any], None], callback: Any) -> None:
    """Writes the model for TensorBoard's graph of layers."""
    if callback.summary is not _ours():
        original(callback)
        return
    if type(callback.model).__name__ not in ("Functional", "Sequential"):
        return
    metadata = summary.SummaryMetadata()
    metadata.plugin_data.plugin_name = "graph_keras_model"
    metadata.plugin_data.content = b"1"
    with internals.summary_writer(callback).as_default():
        summary.write("keras", callback.model.to_json(), 0, metadata)
