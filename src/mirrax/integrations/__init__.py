"""Other libraries whose objects take part; each is loaded only if the user loads it."""

from __future__ import annotations

import importlib

from mirrax.integrations.import_hooks import when_imported
from mirrax.variables import foreign_libraries
from mirrax.variables.foreign_libraries import Library


def await_libraries() -> None:
    """Connects each library as soon as it is imported, now or later."""
    # Models of Keras belong to a strategy from their creation on.
    when_imported("keras", "mirrax.integrations.keras")
    foreign_libraries.register_library("flax.nnx", _load_flax)


def _load_flax() -> Library:
    """Returns the integration of Flax NNX, which the user has imported."""
    library: Library = importlib.import_module("mirrax.integrations.flax").FlaxLibrary()
    return library
