"""Reads checkpoints without the saved objects."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np

from mirrax.train.checkpoints import checkpoint_format, manifest
from mirrax.train.checkpoints.numbered_checkpoints import latest_checkpoint

Path = str | os.PathLike[str]


def load_checkpoint(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays and numbers in a checkpoint by name.

    Args:
        path: A checkpoint, or a directory whose newest checkpoint is read.

    >>> import tempfile
    >>> import mirrax
    >>> checkpoint = mirrax.train.Checkpoint(weight=mirrax.Variable([1.0, 2.0]))
    >>> load_checkpoint(checkpoint.save(tempfile.mkdtemp() + "/ckpt"))["weight"]
    array([1., 2.], dtype=float32)
    """
    found = pathlib.Path(path).absolute()
    if not manifest.is_complete(found):
        found = pathlib.Path(latest_checkpoint(found) or found)
    saved = checkpoint_format.read(found)
    numbers = {
        name: np.asarray(value)
        for name, value in saved.plain.items()
        if isinstance(value, bool | int | float)
    }
    arrays = {name: np.asarray(array) for name, array in saved.arrays.items()}
    return dict(sorted({**arrays, **numbers}.items()))


def list_variables(path: Path) -> list[tuple[str, list[int]]]:
    """Returns the names and shapes of the arrays and numbers in a checkpoint.

    Args:
        path: A checkpoint, or a directory whose newest checkpoint is read.

    >>> import tempfile
    >>> import mirrax
    >>> checkpoint = mirrax.train.Checkpoint(weight=mirrax.Variable([1.0, 2.0]))
    >>> list_variables(checkpoint.save(tempfile.mkdtemp() + "/ckpt"))
    [('save_counter', []), ('weight', [2])]
    """
    return [(name, list(array.shape)) for name, array in load_checkpoint(path).items()]


def load_variable(path: Path, name: str) -> np.ndarray[Any, Any]:
    """Returns an array or number of a checkpoint by name.

    >>> import mirrax
    >>> path = mirrax.train.Checkpoint(weight=mirrax.Variable([1.0, 2.0])).save("run")
    >>> load_variable(path, "weight")
    array([1., 2.], dtype=float32)
    """
    arrays = load_checkpoint(path)
    if name not in arrays:
        raise KeyError(
            f"The checkpoint has no array of this name. Received: {name!r}. It has "
            f"{', '.join(arrays)}."
        )
    return arrays[name]
