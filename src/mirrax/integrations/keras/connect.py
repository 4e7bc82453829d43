"""Installs the Keras integration, if this Keras is supported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import keras

from mirrax.context import stack
from mirrax.integrations.keras import hooks
from mirrax.variables import foreign_libraries

_MODULES = (
    "variable_hooks",
    "restoring",
    "fit",
    "saved_files",
    "inside_run",
    "symbolic",
    "callbacks",
    "settings",
)


def connect() -> None:
    """Installs the hooks; with an unsupported Keras, using it in a scope raises."""
    reason = _find_incompatibility()
    if reason:
        hooks.wrap(keras.Layer, "__new__", _refuse(reason))
        hooks.wrap(keras.Variable, "__init__", _refuse(reason))
        return
    for module in _MODULES:
        importlib.import_module(f"mirrax.integrations.keras.{module}").install()
    internals = importlib.import_module("mirrax.integrations.keras.internals")
    stack.register_library_state(internals.cleared_scopes)
    library = importlib.import_module("mirrax.integrations.keras.library")
    foreign_libraries.register_library("keras", library.KerasLibrary)


def _find_incompatibility() -> str:
    if keras.backend.backend() != "jax":
        return (
            "Strategies train Keras models on the JAX backend. Received: Keras with "
            f"the backend '{keras.backend.backend()}'. Set the environment variable "
            "KERAS_BACKEND=jax before Keras is imported."
        )
    if keras.config.is_nnx_enabled():
        return (
            "Strategies train Keras models whose variables are Keras' own. Received: "
            "Keras with KERAS_NNX_ENABLED. Leave that off."
        )
    try:
        importlib.import_module("mirrax.integrations.keras.internals")
    except ImportError as error:
        return str(error)
    return ""


def _refuse(reason: str) -> Callable[..., Any]:
    def create(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if hooks.current_strategy() is not None:
            raise RuntimeError(reason)
        return original(*args, **kwargs)

    return create
