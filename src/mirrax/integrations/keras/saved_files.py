"""Files of models that replace former ones only once they are complete."""

from __future__ import annotations

import inspect
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

_SUFFIXES = {
    "save": (".keras", ".h5", ".hdf5"),
    "save_model": (".keras", ".h5", ".hdf5"),
    "save_weights": (".weights.h5",),
}


def replace_file(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
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
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as partial:
        call.arguments["filepath"] = os.path.join(partial, name)
        result = original(*call.args, **call.kwargs)
        _move(pathlib.Path(partial), folder)
    return result


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
