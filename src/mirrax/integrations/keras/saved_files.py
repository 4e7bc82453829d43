"""Files of models: one worker writes them, and they replace others when complete."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import keras

from mirrax.integrations.keras import hooks, internals, multi_worker
from mirrax.integrations.keras.fit import strategy_of, without_scope
from mirrax.train.checkpoints.folder_lock import LOCK_SECONDS, locked
from mirrax.train.export import collect_export, write_export

_UNFINISHED = ".mirrax-unfinished-"
_SUFFIXES = {
    "save": (".keras", ".h5", ".hdf5"),
    "save_model": (".keras", ".h5", ".hdf5"),
    "save_weights": (".weights.h5",),
}


def install() -> None:
    """Makes models write their files on the first worker."""
    hooks.wrap(keras.Model, "export", _export)
    for owner, names in (
        (keras.Model, ("save", "save_weights")),
        (keras.models, ("save_model",)),
        (keras.saving, ("save_model", "save_weights")),
    ):
        for name in names:
            hooks.wrap(owner, name, _save)


def _export(
    original: Callable[..., Any],
    model: Any,
    filepath: Any,
    format: str = "tf_saved_model",
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Exports as `mirrax.train.export` does where TensorFlow is not installed."""
    if format != "tf_saved_model" or internals.has_tensorflow():
        return _save(original, model, filepath, format, *args, **kwargs)
    unknown = {*kwargs} - {"verbose", "input_signature"}
    if args or unknown:
        raise ValueError(
            "Without TensorFlow, `export` takes a path and an `input_signature`. "
            f"Received: {sorted(unknown) or args}."
        )
    specs = kwargs.get("input_signature")
    given = model if specs is None else (functools.partial(_infer, model), specs)
    saved = collect_export({"serve": given}, {})
    write = functools.partial(write_export, pathlib.Path(filepath).absolute(), saved)
    strategy = strategy_of(model)
    if strategy is None:
        return write()
    return multi_worker.write_on_chief(strategy, model, "model.export", write)


def _infer(model: Any, *inputs: Any) -> Any:
    return model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)


def _save(original: Callable[..., Any], model: Any, *args: Any, **kw: Any) -> Any:
    """Writes files on the first worker, outside the scope: saving creates objects."""
    strategy = strategy_of(model)

    def write() -> Any:
        with without_scope():
            return _replace_file(original, model, *args, **kw)

    if strategy is None:
        return write()
    what = f"model.{original.__name__}"
    return multi_worker.write_on_chief(strategy, model, what, write)


def _replace_file(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Saves a model with a function of Keras, first to a folder beside the place.

    A process that ends while it writes leaves the former file, from which a job that
    is started again goes on. In a directory of a model, each file is replaced alone.

    Keras itself writes remote and sharded files, files in folders that are not there
    yet, and those for which it asks the user before it replaces others.
    """
    call = inspect.signature(original).bind(*args, **kwargs)
    path: Any = call.arguments.get("filepath")
    if not _is_local(path, call.arguments):
        return original(*args, **kwargs)
    # What a link refers to is replaced, not the link.
    place = pathlib.Path(os.path.realpath(path))
    if call.arguments.get("zipped") is False and place.suffix != ".keras":
        folder, name = place, ""
        folder.mkdir(parents=True, exist_ok=True)
    else:
        folder, name = place.parent, place.name
        is_known = os.fspath(path).endswith(_SUFFIXES.get(original.__name__, ()))
        if not is_known or not folder.is_dir():
            return original(*args, **kwargs)
    _remove_unfinished(folder)
    with (
        tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as partial,
        # With a lock, so that it can be told from what a killed process has left.
        locked(pathlib.Path(partial), LOCK_SECONDS, make=True),
    ):
        call.arguments["filepath"] = os.path.join(partial, name)
        result = original(*call.args, **call.kwargs)
        _move(pathlib.Path(partial), folder)
    return result


def _remove_unfinished(folder: pathlib.Path) -> None:
    """Removes what killed processes have left, unless somebody may be writing it."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError), locked(path, seconds=0) as is_locked:
            if is_locked:
                shutil.rmtree(path)


def _is_local(path: Any, given: dict[str, Any]) -> bool:
    """Returns whether Keras writes no remote or sharded files, and asks nobody."""
    return (
        isinstance(path, str | os.PathLike)
        and "://" not in os.fspath(path)
        and given.get("overwrite", True) is True
        and given.get("max_shard_size") is None
    )


def _move(source: pathlib.Path, folder: pathlib.Path) -> None:
    """Moves files, with their folders, and replaces those of the same names."""
    # A folder comes before what is in it.
    for path in sorted(source.rglob("*")):
        target = folder / path.relative_to(source)
        if path.is_dir():
            target.mkdir(exist_ok=True)
            continue
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        os.replace(path, target)
