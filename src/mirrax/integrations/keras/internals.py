"""The private names of Keras that Mirrax needs, and nothing else.

Everything here was tested with Keras 3.15. Whoever raises the version reads this file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import jax
import keras

TESTED = (3, 15)

try:
    from keras.src.backend.common import global_state as _global_state
    from keras.src.backend.common.stateless_scope import get_stateless_scope
    from keras.src.backend.jax import trainer as _trainer
    from keras.src.losses import loss as _loss
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter
    from keras.src.trainers.data_adapters.data_adapter_utils import (
        class_weight_to_sample_weights,
        unpack_x_y_sample_weight,
    )

    # Methods and functions that Mirrax replaces: where they are, and their names.
    INITIALIZE_LATER = (keras.Variable, "_deferred_initialize")
    ASSIGN_DIRECTLY = (keras.Variable, "_direct_assign")
    AFTER_BUILD = (keras.Layer, "_post_build")
    GET_BATCHES = (_trainer.JAXEpochIterator, "_get_iterator")
    PLACE_BATCH = (_trainer, "_distribute_data")
    SCALE_LOSS = (_loss, "scale_loss_for_distribution")
    UNSCALE_LOSS = (_loss, "unscale_loss_for_distribution")
    for _owner, _name in (
        INITIALIZE_LATER,
        ASSIGN_DIRECTLY,
        AFTER_BUILD,
        GET_BATCHES,
        PLACE_BATCH,
        SCALE_LOSS,
        UNSCALE_LOSS,
        (keras.Variable, "_maybe_autocast"),
    ):
        getattr(_owner, _name)
except (ImportError, AttributeError) as error:
    raise ImportError(
        f"Mirrax was tested with Keras {'.'.join(map(str, TESTED))} and does not know "
        f"this version. Received: Keras {keras.__version__}. Missing: {error}. Install "
        "'keras>=3.15'."
    ) from error

# What Keras notes per thread about the code that runs just now. The rest of its notes,
# such as the names that are taken, belongs to all replicas.
_SCOPES = (
    "autocast_scope",
    "current_call_ctx",
    "name_scope_stack",
    "remat_scope_stack",
    "stateless_scope",
    "symbolic_scope",
)

_NUMBERS = re.compile(r"_\d+(?=[_/]|$)")


def stateless_scope() -> Any:
    """Returns the scope in which Keras keeps values apart from variables, if any."""
    return get_stateless_scope()


def array_of(variable: Any) -> Any:
    """Returns the array that a variable holds; None before it is initialized."""
    return variable.__dict__.get("_value")


def set_array(variable: Any, array: jax.Array | None) -> None:
    """Makes a variable hold `array`."""
    variable._value = array


def role_of(variable: Any) -> str:
    """Returns the path of a variable without the numbers that Keras counts.

    It counts in each process for itself, also objects that it makes to write a file.
    """
    return _NUMBERS.sub("", variable.path)


def place_of(variable: Any) -> tuple[dict[str, Any], str]:
    """Returns where a variable holds its array: a dictionary, and the key in it."""
    return variable.__dict__, "_value"


def dtype_of(variable: Any) -> Any:
    """Returns the dtype of the array, whatever a layer casts it to at this moment."""
    return variable._dtype


def autocast(variable: Any, value: Any) -> Any:
    """Returns `value` in the dtype that the layer being called computes with."""
    return variable._maybe_autocast(value)


def trained_by(optimizer: Any) -> list[Any]:
    """Returns the variables that an optimizer was built for, in order."""
    return list(optimizer._trainable_variables)


def initial_epoch(model: Any) -> int:
    """Returns the epoch that a restored backup lets `fit` start with."""
    return int(model._initial_epoch or 0)


def set_initial_epoch(model: Any, epoch: int) -> None:
    """Makes `fit` start with `epoch`."""
    model._initial_epoch = epoch


@contextlib.contextmanager
def cleared_scopes() -> Iterator[None]:
    """Puts away what Keras notes about the running code, for the `with` block."""
    notes = {name: _global_state.get_global_attribute(name) for name in _SCOPES}
    for name in _SCOPES:
        _global_state.set_global_attribute(name, None)
    try:
        yield
    finally:
        for name, note in notes.items():
            _global_state.set_global_attribute(name, note)


__all__ = [
    "AFTER_BUILD",
    "ASSIGN_DIRECTLY",
    "GET_BATCHES",
    "INITIALIZE_LATER",
    "PLACE_BATCH",
    "SCALE_LOSS",
    "TESTED",
    "UNSCALE_LOSS",
    "DataAdapter",
    "array_of",
    "autocast",
    "class_weight_to_sample_weights",
    "cleared_scopes",
    "dtype_of",
    "initial_epoch",
    "place_of",
    "role_of",
    "set_array",
    "set_initial_epoch",
    "stateless_scope",
    "trained_by",
    "unpack_x_y_sample_weight",
]
