"""Runs the sources of a program with the attributes of TensorFlow's tensors."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import pathlib
import sys
import types
from typing import Any

from typing_extensions import override

from mirrax.tf.tensors.tensor_attributes import (
    Operand,
    TensorAttributes,
    dtype_of,
    shape_of,
)

_PREFIX = "_mirrax_"


def run_file(path: pathlib.Path) -> None:
    """Runs a file as the main module, which stays alive as long as its threads."""
    program = types.ModuleType("__main__")
    program.__file__ = str(path)
    sys.modules["__main__"] = program
    exec(_code(path.read_bytes(), str(path)), vars(program))


def rewrite_imports(folder: pathlib.Path) -> None:
    """Lets modules below a folder be rewritten when they are imported."""
    for helper in (shape_of, dtype_of, Operand):
        setattr(builtins, f"{_PREFIX}{helper.__name__}", helper)
    root = folder.resolve()

    def finder_of(entry: str) -> Any:
        path = pathlib.Path(entry or ".").resolve()
        is_own = path.is_relative_to(root) and "site-packages" not in path.parts
        if not is_own or not path.is_dir():
            raise ImportError
        kinds = (
            (importlib.machinery.ExtensionFileLoader, _EXTENSIONS),
            (_Loader, importlib.machinery.SOURCE_SUFFIXES),
        )
        return importlib.machinery.FileFinder(str(path), *kinds)

    sys.path_hooks.insert(0, finder_of)
    sys.path_importer_cache.clear()


_EXTENSIONS = importlib.machinery.EXTENSION_SUFFIXES


class _Loader(importlib.machinery.SourceFileLoader):
    @override
    def get_code(self, fullname: str) -> types.CodeType:
        # Neither reads nor writes bytecode files, which TensorFlow's runs share.
        path = self.get_filename(fullname)
        return _code(self.get_data(path), path)


def _code(source: bytes, path: str) -> types.CodeType:
    tree = TensorAttributes(_PREFIX).visit(ast.parse(source, path))
    return compile(tree, path, "exec", dont_inherit=True)
