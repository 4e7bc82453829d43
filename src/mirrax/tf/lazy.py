"""Imports Keras on first use."""

from __future__ import annotations

import os
from typing import Any

from mirrax.tf.missing_names import names_of

_PARTS_OF_KERAS = ("initializers", "losses", "metrics", "optimizers")
_BACKEND = "KERAS_BACKEND"
_missing = names_of("tf")


def load(name: str) -> Any:
    """Returns `tf.keras` or one of its modules; the `__getattr__` of `mirrax.tf`."""
    if name == "keras":
        return keras()
    if name in _PARTS_OF_KERAS:
        return getattr(keras(), name)
    return _missing(name)


def keras() -> Any:
    """Returns Keras 3, on JAX."""
    given = os.environ.get(_BACKEND)
    os.environ[_BACKEND] = given or "jax"
    try:
        import keras as module
    except ImportError as error:
        raise ImportError(
            "`tf.keras` needs Keras 3, which is not installed. Install `mirrax[keras]`."
        ) from error
    finally:
        if given is None:
            del os.environ[_BACKEND]
    backend = module.config.backend()
    if backend != "jax":
        raise RuntimeError(
            "`tf.keras` needs Keras on the JAX backend. Received: the backend "
            f"{backend!r}. Set KERAS_BACKEND=jax, or import `mirrax.tf` first."
        )
    return module
