"""`tf.io.gfile`: local files."""

from __future__ import annotations

import glob as globbing
import os
import shutil
from collections.abc import Iterator
from typing import IO, Any

from mirrax.tf.errors import AlreadyExistsError, of_files
from mirrax.tf.io.files import path_of


@of_files()
def GFile(name: Any, mode: str = "r") -> IO[Any]:  # noqa: N802 - TensorFlow's name
    """Opens a file."""
    return open(path_of(name), mode)


def exists(path: Any) -> bool:
    return os.path.exists(path_of(path))


def isdir(path: Any) -> bool:
    return os.path.isdir(path_of(path))


@of_files()
def listdir(path: Any) -> list[str]:
    return os.listdir(path_of(path))


def glob(pattern: Any) -> list[str]:
    patterns = pattern if isinstance(pattern, list | tuple) else [pattern]
    return [found for one in patterns for found in sorted(globbing.glob(path_of(one)))]


def join(path: Any, *paths: Any) -> str:
    return os.path.join(path_of(path), *map(path_of, paths))


@of_files()
def mkdir(path: Any) -> None:
    os.mkdir(path_of(path))


@of_files()
def makedirs(path: Any) -> None:
    os.makedirs(path_of(path), exist_ok=True)


@of_files()
def remove(path: Any) -> None:
    os.remove(path_of(path))


@of_files()
def rmtree(path: Any) -> None:
    shutil.rmtree(path_of(path))


@of_files()
def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    _require_free(dst, overwrite)
    os.replace(path_of(src), path_of(dst))


@of_files()
def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    _require_free(dst, overwrite)
    shutil.copyfile(path_of(src), path_of(dst))


@of_files()
def stat(path: Any) -> os.stat_result:
    return os.stat(path_of(path))


def walk(top: Any, topdown: bool = True) -> Iterator[Any]:
    return os.walk(path_of(top), topdown)


def _require_free(path: Any, overwrite: bool) -> None:
    if not overwrite and exists(path):
        raise AlreadyExistsError(
            f"The target must not exist. Received: {path_of(path)!r}, which exists. "
            "Use `overwrite=True`."
        )
