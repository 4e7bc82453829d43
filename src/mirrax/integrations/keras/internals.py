"""The private names of Keras that Mirrax uses; tested with Keras 3.15."""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Iterator
from typing import Any

import jax
import keras

TESTED = (3, 15)


def _known(owner: Any, name: str) -> tuple[Any, str]:
    """Returns its arguments; raises AttributeError if this Keras has no such name."""
    getattr(owner, name)
    return owner, name


try:
    from keras.src.backend.common import global_state as _global_state
    from keras.src.backend.common.stateless_scope import get_stateless_scope
    from keras.src.backend.jax import trainer as _trainer
    from keras.src.losses import loss as _loss
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter as DataAdapter
    from keras.src.trainers.data_adapters.data_adapter_utils import (
        class_weight_to_sample_weights as class_weight_to_sample_weights,
    )
    from keras.src.utils.module_utils import tensorflow as _tensorflow

    # Methods and functions that Mirrax replaces: the owner and the name.
    INITIALIZE_LATER = _known(keras.Variable, "_deferred_initialize")
    ASSIGN_DIRECTLY = _known(keras.Variable, "_direct_assign")
    AFTER_BUILD = _known(keras.Layer, "_post_build")
    GET_BATCHES = _known(_trainer.JAXEpochIterator, "_get_iterator")
    GET_STATE = _known(_trainer.JAXTrainer, "_get_jax_state")
    ITERATE_STEP = _known(_trainer.JAXTrainer, "_make_function")
    PLACE_BATCH = _known(_trainer, "_distribute_data")
    REDUCE_LOSSES = _known(_loss, "reduce_values")
    SCALE_LOSS = _known(_loss, "scale_loss_for_distribution")
    UNSCALE_LOSS = _known(_loss, "unscale_loss_for_distribution")
    BUILD_SYMBOLICALLY = _known(_trainer.base_trainer.Trainer, "_symbolic_build")
    WRITE_MODEL = _known(keras.callbacks.TensorBoard, "_write_keras_model_summary")
    _known(keras.Variable, "_maybe_autocast")
except (ImportError, AttributeError) as error:
    raise ImportError(
        f"Mirrax was tested with Keras {'.'.join(map(str, TESTED))} and does not know "
        f"this version. Received: Keras {keras.__version__}. Missing: {error}. Install "
        "'keras>=3.15'."
    ) from error

# Keras' thread-local state about the running code. Other state, such as used names,
# belongs to all replicas.
_SCOPES = (
    "autocast_scope",
    "current_call_ctx",
    "name_scope_stack",
    "remat_scope_stack",
    "stateless_scope",
    "symbolic_scope",
)

stateless_scope = get_stateless_scope
"""Returns Keras' current stateless scope, if any."""

_NUMBERS = re.compile(r"_\d+(?=[_/]|$)")


def has_tensorflow() -> bool:
    """Returns whether Keras can import TensorFlow."""
    return bool(_tensorflow.available)


def array_of(variable: Any) -> Any:
    """Returns a variable's array; None before it is initialized."""
    return variable.__dict__.get("_value")


def awaits_value(variable: Any) -> bool:
    """Returns whether a variable will be initialized when a symbolic call ends."""
    return variable._value is None and variable._initializer is not None


def set_array(variable: Any, array: jax.Array | None) -> None:
    """Sets a variable's array."""
    variable._value = array


def role_of(variable: Any) -> str:
    """Returns a variable's path without the numbers of Keras' name counters.

    The counters differ between processes.
    """
    return _NUMBERS.sub("", variable.path)


def place_of(variable: Any) -> tuple[dict[str, Any], str]:
    """Returns the dictionary and the key where a variable stores its array."""
    return variable.__dict__, "_value"


dtype_of = operator.attrgetter("_dtype")
"""Returns the dtype of a variable's array, ignoring autocasts."""


def autocast(variable: Any, value: Any) -> Any:
    """Casts `value` to the compute dtype of the layer being called."""
    return variable._maybe_autocast(value)


trained_by = operator.attrgetter("_trainable_variables")
"""Returns the variables that an optimizer was built for."""


def initial_epoch(model: Any) -> int:
    """Returns the epoch at which `fit` starts after a restored backup."""
    return int(model._initial_epoch or 0)


def set_initial_epoch(model: Any, epoch: int) -> None:
    """Sets the epoch at which `fit` starts."""
    model._initial_epoch = epoch


def save_backup(callback: Any, epoch: int) -> None:
    """Makes `BackupAndRestore` save now, in the middle of an epoch."""
    # Keras sets it only at the end of an epoch, and not when it restores.
    callback._current_epoch = epoch
    callback._save_model()


def build_layers_of(layer: Any) -> None:
    """Builds what the own `build` of a layer has not, by a symbolic call."""
    shapes = layer._build_shapes_dict
    if len(shapes) == 1:
        layer._build_by_run_for_single_pos_arg(*shapes.values())
    else:
        layer._build_by_run_for_kwargs(shapes)


def layers_of(layer: Any) -> list[Any]:
    """Returns a layer and those in it."""
    return list(layer._flatten_layers())


def set_summary_module(callback: Any, module: Any) -> None:
    """Sets what a TensorBoard callback uses as `tf.summary`."""
    callback._summary_module = module


summary_writer = operator.attrgetter("_train_writer")
"""Returns the writer of a TensorBoard callback for training."""


@contextlib.contextmanager
def cleared_scopes() -> Iterator[None]:
    """Clears Keras' thread-local scopes in the `with` block."""
    saved = {name: _global_state.get_global_attribute(name) for name in _SCOPES}
    for name in _SCOPES:
        _global_state.set_global_attribute(name, None)
    try:
        yield
    finally:
        for name, value in saved.items():
            _global_state.set_global_attribute(name, value)
