"""What programs for Keras 2 write otherwise: names, and paths without an extension.

On several workers of TensorFlow 2.21, `fit` works with Keras 2 only, so programs for
them are written for it.
"""

from __future__ import annotations

import functools
import inspect
import os
import pathlib
from collections.abc import Callable
from typing import Any

from mirrax.tf.keras_support import internals
from mirrax.tf.keras_support.steps import wrap

_WEIGHTS = ".weights.h5"
_MODELS = (".keras", ".h5", ".hdf5")
_OPTIMIZERS = ("Adagrad", "Adam", "Ftrl", "RMSprop", "SGD")


@functools.cache
def install(keras: Any) -> None:
    """Lets Keras 3 take the names and the paths of Keras 2."""
    keras.Metric.reset_states = lambda metric: metric.reset_state()
    keras.optimizers.Optimizer.lr = property(
        lambda optimizer: optimizer.learning_rate,
        lambda optimizer, value: setattr(optimizer, "learning_rate", value),
    )
    wrap(keras.Model, "save", _save)
    wrap(keras.models, "save_model", _save)
    wrap(keras.Model, "save_weights", _save_weights)
    wrap(keras.Model, "load_weights", _load_weights)
    wrap(keras.callbacks.ModelCheckpoint, "__init__", _any_path)
    layers, optimizers = internals.tensorflow_namespace().layers, keras.optimizers
    former = {
        "callbacks.experimental": {
            "BackupAndRestore": keras.callbacks.BackupAndRestore
        },
        "layers.experimental": {},
        "layers.experimental.preprocessing": vars(layers),
        "optimizers.experimental": vars(optimizers),
        "optimizers.legacy": {name: vars(optimizers)[name] for name in _OPTIMIZERS},
    }
    for name, names in former.items():
        internals.add_module(name, names)


def latest_weights(directory: Any) -> str | None:
    """Returns the newest file of weights in a directory, without its extension."""
    files = pathlib.Path(directory).absolute().glob(f"*{_WEIGHTS}")
    newest = max(files, key=_time_of, default=None)
    return None if newest is None else str(newest).removesuffix(_WEIGHTS)


def _time_of(path: pathlib.Path) -> int:
    """Returns when a file was written; 0 if it was removed meanwhile."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _save(
    original: Callable[..., Any], model: Any, filepath: Any, *args: Any, **kw: Any
) -> Any:
    """Saves a model; to a directory if the path has no extension."""
    if not str(filepath).endswith(_MODELS):
        if kw.get("save_format", "tf") == "tf":
            kw.pop("save_format", None)
        bound = inspect.signature(original).bind(model, filepath, *args, **kw)
        if "zipped" not in bound.arguments:
            kw["zipped"] = False
    return original(model, filepath, *args, **kw)


def _save_weights(
    original: Callable[..., Any], model: Any, filepath: Any, *args: Any, **kw: Any
) -> Any:
    kw.pop("save_format", None)
    return original(model, _path_of_weights(filepath), *args, **kw)


def _load_weights(
    original: Callable[..., Any], model: Any, filepath: Any, *args: Any, **kw: Any
) -> Any:
    path = _path_of_weights(filepath)
    return original(model, path if os.path.exists(path) else filepath, *args, **kw)


def _path_of_weights(path: Any) -> str:
    """Returns the path with the extension that Keras 3 wants."""
    name: str = os.fspath(path)
    is_accepted = name.endswith((_WEIGHTS, ".weights.json"))
    return name if is_accepted else name + _WEIGHTS


def _any_path(
    original: Callable[..., None],
    callback: Any,
    filepath: Any,
    *args: Any,
    **kw: Any,
) -> None:
    """Creates a `ModelCheckpoint`, whose path may lack the extension."""
    given = inspect.signature(original).bind(callback, filepath, *args, **kw).arguments
    suffix = _WEIGHTS if given.get("save_weights_only") else ".keras"
    original(callback, f"{os.fspath(filepath)}{suffix}", *args, **kw)
    callback.filepath = os.fspath(filepath)
