"""Keras 3 on JAX: models, optimizers and metrics that belong to strategies.

Importing this package installs the hooks.
"""

from __future__ import annotations

from mirrax.integrations.keras.connect import connect

connect()
