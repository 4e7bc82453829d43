"""Files of models that replace former ones only once they are complete."""

from __future__ import annotations

import inspect
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

_SUFFIXES = {
    "save": (".keras", ".h5", ".hdf5"),
    "save_model": (".keras", ".h5", ".hdf5"),
    "save_weights": (".weights.h5",),
}


def replace_file(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Saves a model with a function of Keras, first under another name.

    A process that ends while it writes leaves the former file, from which a job that
    is started again goes on.
    """
    call = inspect.signature(original).bind(*args, **kwargs)
    path: Any = call.arguments.get("filepath")
    if call.arguments.get("zipped") is False:
        _remove_assets(pathlib.Path(path))
    if not _is_one_file(original.__name__, path, call.arguments):
        return original(*args, **kwargs)
    partial = pathlib.Path(path).with_name(f".partial-{pathlib.Path(path).name}")
    call.arguments["filepath"] = str(partial)
    try:
        result = original(*call.args, **call.kwargs)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return result


def _remove_assets(path: pathlib.Path) -> None:
    """Lets Keras save to a directory again: it refuses one with assets."""
    if (path / "config.json").exists() and (path / "model.weights.h5").exists():
        shutil.rmtree(path / "assets", ignore_errors=True)


def _is_one_file(function: str, path: Any, given: dict[str, Any]) -> bool:
    """Returns whether Keras writes one local file, without asking the user."""
    return (
        isinstance(path, str | os.PathLike)
        and os.fspath(path).endswith(_SUFFIXES.get(function, ()))
        and "://" not in os.fspath(path)
        and given.get("overwrite", True) is True
        and given.get("zipped") is not False
        and given.get("max_shard_size") is None
    )
