"""Lets programs that say `import tensorflow` run on `mirrax.tf`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from types import ModuleType

from mirrax.tf.keras_support import internals, namespace
from mirrax.tf.missing_names import replacement_of
from mirrax.tf.module_aliases import AliasFinder, Import

_TENSORFLOW = "tensorflow"


def install() -> None:
    """Answers every later `import tensorflow`, in any form, with `mirrax.tf`.

    Call it before anything imports TensorFlow. `python -m mirrax.tf train.py` does so
    and runs the program.
    """
    if any(isinstance(finder, _TensorFlowFinder) for finder in sys.meta_path):
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
    sys.meta_path.insert(0, _TensorFlowFinder())


class _TensorFlowFinder(AliasFinder):
    def __init__(self) -> None:
        super().__init__({_TENSORFLOW: lambda: _module("mirrax.tf")}, _on_missing)


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


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def register_aliases() -> None:
    """Makes the modules of `mirrax.tf` that live elsewhere importable."""
    aliases: dict[str, Import] = {
        "mirrax.tf.keras": namespace.keras,
        "mirrax.tf.compat.v1.keras": namespace.keras,
        "mirrax.tf.compat.v2": lambda: _module("mirrax.tf"),
    }
    for part in namespace.PARTS_OF_KERAS:
        aliases[f"mirrax.tf.{part}"] = functools.partial(namespace.load, part)
    sys.meta_path.insert(0, AliasFinder(aliases))
