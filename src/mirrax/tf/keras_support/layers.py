"""Layers of `tf.keras` that Keras writes with TensorFlow."""

from __future__ import annotations

import functools
import importlib

from mirrax.tf.keras_support import file_datasets, internals
from mirrax.tf.keras_support.lookup_layers import IntegerLookup, StringLookup
from mirrax.tf.keras_support.text_layers import TextVectorization
from mirrax.tf.missing_names import unavailable

_LAYERS = (IntegerLookup, StringLookup, TextVectorization)
_DATASETS = (
    file_datasets.image_dataset_from_directory,
    file_datasets.text_dataset_from_directory,
    file_datasets.timeseries_dataset_from_array,
)
_MISSING = ("HashedCrossing", "Hashing")


@functools.cache
def install() -> None:
    """Puts the layers that work on the host into `tf.keras.layers`."""
    names = {layer.__name__: layer for layer in _LAYERS}
    missing = {name: unavailable(f"tf.keras.layers.{name}") for name in _MISSING}
    internals.replace("layers", {**names, **missing})
    for part in ("utils", "preprocessing"):
        internals.replace(part, {f.__name__: f for f in _DATASETS})
    internals.let_layers_adapt_to_datasets(importlib.import_module("mirrax.tf"))
