"""Other libraries' models under a strategy; each is loaded once its library is."""

from __future__ import annotations

import importlib

from mirrax.variables.libraries import Library


def load_flax() -> Library:
    """Returns the integration of Flax NNX, which the user has imported."""
    library: Library = importlib.import_module("mirrax.integrations.flax").FlaxLibrary()
    return library
