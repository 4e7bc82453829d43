"""Integrations of Keras and Flax, loaded once the user imports the library."""

from __future__ import annotations

import importlib

from mirrax.integrations.import_hooks import when_imported
from mirrax.variables import foreign_libraries
from mirrax.variables.foreign_libraries import Library


def register_integrations() -> None:
    """Loads each integration when its library is imported, now or later."""
    # At once for Keras: models belong to a strategy from their creation.
    when_imported("keras", "mirrax.integrations.keras")
    foreign_libraries.register_library("flax.nnx", _load_flax)


def _load_flax() -> Library:
    return importlib.import_module("mirrax.integrations.flax").FlaxLibrary()
