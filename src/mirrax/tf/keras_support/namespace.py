"""Imports Keras on first use."""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

from mirrax.tf.dtypes import string
from mirrax.tf.keras_support import (
    backend,
    file_datasets,
    internals,
    keras_2,
    steps,
    text_models,
)
from mirrax.tf.keras_support.lookup_layers import IntegerLookup, StringLookup
from mirrax.tf.keras_support.text_layers import TextVectorization
from mirrax.tf.namespaces.missing_names import names_of, unavailable

PARTS_OF_KERAS = ("initializers", "losses", "metrics", "optimizers")
BACKEND = "KERAS_BACKEND"
_LAYERS = (IntegerLookup, StringLookup, TextVectorization)
_DATASETS = (
    file_datasets.image_dataset_from_directory,
    file_datasets.text_dataset_from_directory,
    file_datasets.timeseries_dataset_from_array,
)
_MISSING = ("HashedCrossing", "Hashing")
_missing = names_of("tf")


def load(name: str) -> Any:
    """Returns `tf.keras` or one of its modules; the `__getattr__` of `mirrax.tf`."""
    if name == "keras":
        return keras()
    if name in PARTS_OF_KERAS:
        return getattr(keras(), name)
    return _missing(name)


def keras() -> Any:
    """Returns Keras 3 on JAX, in the namespace of `tf.keras`."""
    given = os.environ.get(BACKEND)
    os.environ[BACKEND] = given or "jax"
    try:
        import keras as module
    except ImportError as error:
        raise ImportError(
            "`tf.keras` needs Keras 3, which is not installed. Install `mirrax[keras]`."
        ) from error
    finally:
        if given is None:
            del os.environ[BACKEND]
    found = module.config.backend()
    if found != "jax":
        raise RuntimeError(
            "`tf.keras` needs Keras on the JAX backend. Received: the backend "
            f"{found!r}. Set KERAS_BACKEND=jax, or import `mirrax.tf` first."
        )
    steps.install(module.Model)
    text_models.install(module.Sequential)
    backend.install(module)
    keras_2.install(module)
    _install_layers()
    return internals.tensorflow_namespace()


@functools.cache
def _install_layers() -> None:
    """Puts the layers that work on the host into `tf.keras.layers`."""
    names = {layer.__name__: layer for layer in _LAYERS}
    missing = {name: unavailable(f"tf.keras.layers.{name}") for name in _MISSING}
    internals.replace("layers", {**names, **missing})
    for part in ("utils", "preprocessing"):
        internals.replace(part, {f.__name__: f for f in _DATASETS})
    for part in ("losses", "metrics"):
        internals.add_names_of_keras(part)
    internals.accept_string_dtype(string)
    internals.let_layers_adapt_to_datasets(importlib.import_module("mirrax.tf"))
