"""Imports of names that stand for other modules, such as `tensorflow` or `tf.keras`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from typing_extensions import override

from mirrax.tf.keras_support import internals, namespace
from mirrax.tf.migration.replacements import REPLACEMENTS
from mirrax.tf.namespaces.missing_names import replacement_of

_TENSORFLOW = "tensorflow"


def install() -> None:
    """Answers every later `import tensorflow`, in any form, with `mirrax.tf`.

    Call it before anything imports TensorFlow. `python -m mirrax.tf train.py` does so
    and runs the program.
    """
    if _tensorflow_finder in sys.meta_path:
        return
    if _TENSORFLOW in sys.modules:
        raise RuntimeError(
            "`mirrax.tf.install` must be called before TensorFlow is imported. "
            "Received: a process that has imported it. Call it first, or run the "
            "program with `python -m mirrax.tf`."
        )
    # Programs also write `import keras`, which chooses the backend.
    os.environ.setdefault(namespace.BACKEND, "jax")
    with contextlib.suppress(ImportError):  # Keras is optional.
        namespace.keras()
        internals.hide_tensorflow()
    sys.meta_path.insert(0, _tensorflow_finder)


def register_aliases() -> None:
    """Makes the modules of `mirrax.tf` that live elsewhere importable."""
    aliases: dict[str, Callable[[], ModuleType]] = {
        "mirrax.tf.keras": namespace.keras,
        "mirrax.tf.compat.v1.keras": namespace.keras,
        "mirrax.tf.compat.v2": _mirrax_tf,
    }
    for part in namespace.PARTS_OF_KERAS:
        aliases[f"mirrax.tf.{part}"] = functools.partial(namespace.load, part)
    sys.meta_path.insert(0, _AliasFinder(aliases))
    sys.meta_path.append(_MissingNames())


class _MissingNames(importlib.abc.MetaPathFinder):
    """Names a replacement in the error of `from tensorflow import lite`."""

    @override
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> None:
        name = fullname.removeprefix("mirrax.")
        if name != fullname and name in REPLACEMENTS:
            # Python hides an error that has the name of the module.
            raise ModuleNotFoundError(_on_missing(name), name=name)


class _AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of the given names, and of names below them.

    Args:
        aliases: Returns the module, for each name.
        on_missing: Returns the text of the error for a name below an alias that does
            not exist.
    """

    def __init__(
        self,
        aliases: Mapping[str, Callable[[], ModuleType]],
        on_missing: Callable[[str], str] = "No module named {!r}".format,
    ) -> None:
        self._aliases = aliases
        self._on_missing = on_missing

    @override
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        is_below = any(fullname.startswith(f"{name}.") for name in self._aliases)
        is_ours = fullname in self._aliases or is_below
        return importlib.machinery.ModuleSpec(fullname, self) if is_ours else None

    @override
    def exec_module(self, module: ModuleType) -> None:
        # Python allows a module to replace itself while it is imported.
        sys.modules[module.__name__] = self._find(module.__name__)

    def _find(self, fullname: str) -> ModuleType:
        if fullname in self._aliases:
            return self._aliases[fullname]()
        parent, _, child = fullname.rpartition(".")
        name = f"{sys.modules[parent].__name__}.{child}"
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.removeprefix("mirrax.")):
                raise
            text = self._on_missing(fullname)
            raise ModuleNotFoundError(text, name=fullname) from None


def _mirrax_tf() -> ModuleType:
    return importlib.import_module("mirrax.tf")


def _on_missing(name: str) -> str:
    ours = name.replace(_TENSORFLOW, "tf", 1)
    if ours.startswith("tf.python"):
        advice = (
            "It is private to TensorFlow. Use the public name, from `tf` or "
            "`tensorflow.keras`."
        )
    else:
        advice = replacement_of(ours)
    return f"`mirrax.tf` has no `{name}`. {advice}"


_tensorflow_finder = _AliasFinder({_TENSORFLOW: _mirrax_tf}, _on_missing)
