"""Reading and writing of whole files."""

from __future__ import annotations

import glob
import os
import pathlib
from typing import Any

from mirrax.tf.errors import of_files
from mirrax.tf.tensors.tensor import string_tensor


@of_files()
def read_file(filename: Any, name: Any = None) -> Any:
    """Returns the bytes of a file."""
    return string_tensor(pathlib.Path(path_of(filename)).read_bytes())


def write_file(filename: Any, contents: Any, name: Any = None) -> None:
    """Writes bytes to a file; creates its directory if needed."""
    path = pathlib.Path(path_of(filename))
    path.parent.mkdir(parents=True, exist_ok=True)
    given = contents.item() if hasattr(contents, "item") else contents
    path.write_bytes(given.encode() if isinstance(given, str) else given)


def matching_files(pattern: Any, name: Any = None) -> Any:
    """Returns the sorted names of the files that match a pattern."""
    return string_tensor(sorted(glob.glob(path_of(pattern))))


def path_of(value: Any) -> str:
    """Returns a path given as text, bytes or a string tensor."""
    given = value.item() if hasattr(value, "item") else value
    return os.fsdecode(given)
