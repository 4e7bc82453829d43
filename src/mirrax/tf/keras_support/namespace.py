"""Imports Keras on first use."""

from __future__ import annotations

import os
from typing import Any

from mirrax.tf.keras_support import backend, internals, layers, steps
from mirrax.tf.missing_names import names_of

PARTS_OF_KERAS = ("initializers", "losses", "metrics", "optimizers")
BACKEND = "KERAS_BACKEND"
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
    backend.install(module)
    layers.install()
    return internals.tensorflow_namespace()
