"""The private names of Keras that `mirrax.tf` uses; tested with Keras 3.15."""

from __future__ import annotations

import importlib
import operator
import sys
import types
from collections.abc import Mapping
from typing import Any, NoReturn

import jax

import mirrax


def tensorflow_namespace() -> Any:
    """Returns the namespace that TensorFlow shows as `tf.keras`; else `keras`.

    It has some names more, such as `losses.Reduction` and `preprocessing`.
    """
    try:
        return importlib.import_module("keras._tf_keras.keras")
    except ImportError:
        return importlib.import_module("keras")


def replace(part: str, names: Mapping[str, Any]) -> None:
    """Sets names in a module of `tf.keras`."""
    vars(_part(part)).update(names)


def add_module(name: str, names: Mapping[str, Any]) -> None:
    """Adds a module with these names to `tf.keras`."""
    space = tensorflow_namespace()
    module = types.ModuleType(f"{space.__name__}.{name}")
    public = {key: value for key, value in names.items() if not key.startswith("__")}
    vars(module).update(public, __path__=[])
    parent, _, child = name.rpartition(".")
    setattr(_part(parent), child, module)
    sys.modules[module.__name__] = module


def _part(name: str) -> Any:
    return operator.attrgetter(name)(tensorflow_namespace())


def add_names_of_keras(part: str) -> None:
    """Adds what a module of `tf.keras` lacks, such as `mean_squared_error`."""
    own = vars(importlib.import_module(f"keras.{part}"))
    replace(part, own | vars(getattr(tensorflow_namespace(), part)))


def replace_backend(tf: Any, functions: Mapping[str, Any]) -> None:
    """Sets what `tf.keras.backend` takes for TensorFlow, and some of its functions."""
    legacy = importlib.import_module("keras.src.legacy.backend")
    vars(legacy).update(functions, tf=tf)
    replace("backend", functions)


def let_layers_adapt_to_datasets(tf: Any) -> None:
    """Lets the layers that ask for `tf.data.Dataset` know that of `mirrax.tf`."""
    for name in ("normalization", "discretization"):
        module = importlib.import_module(f"keras.src.layers.preprocessing.{name}")
        vars(module)["tf"] = tf


def accept_string_dtype(dtype: Any) -> None:
    """Lets an input of a model have this dtype as that of strings."""
    dtypes = importlib.import_module("keras.src.backend.common.dtypes")
    dtypes.PYTHON_DTYPES_MAP[dtype] = "string"


def is_symbolic(value: Any) -> bool:
    """Returns whether this is an input of a model of Keras that is being built."""
    return type(value).__name__ == "KerasTensor"


def hide_tensorflow() -> None:
    """Makes Keras treat TensorFlow as not installed.

    Keras would use the stand-in named `tensorflow` for TensorFlow's own graphs.
    """
    lazy = importlib.import_module("keras.src.utils.module_utils")
    for module in (lazy.tensorflow, lazy.gfile):
        module.module = _NoTensorFlow("tensorflow")
        module._available = False


class _NoTensorFlow(types.ModuleType):
    @staticmethod
    def executing_eagerly() -> bool:
        """Returns True: Keras asks whether it is in a graph of TensorFlow."""
        return True

    def __getattr__(self, name: str) -> NoReturn:
        raise ImportError(
            f"This part of Keras needs TensorFlow itself. Received: a use of its "
            f"`{name}` in a process where `mirrax.tf` stands for TensorFlow. Use "
            "`tf` or `keras.ops` in models and losses, and NumPy or Python in "
            "`Dataset.map`."
        )


# The method of a trainer that calls a model which has no variables yet.
BUILD_ON_A_BATCH = "_symbolic_build"

# How a model of Keras on JAX passes its variables from step to step.
_STATES = {
    "train": (
        "trainable_variables",
        "non_trainable_variables",
        "optimizer_variables",
        "metrics_variables",
    ),
    "test": ("trainable_variables", "non_trainable_variables", "metrics_variables"),
    "predict": ("trainable_variables", "non_trainable_variables"),
}


def take_state(model: Any, kind: str, state: Any) -> tuple[None, ...]:
    """Gives the model's variables the values that Keras passes to a step.

    Returns a state without values, for the next step: the variables keep theirs.
    """
    names = _STATES[kind]
    if any(values is not None for values in state):
        model._jax_state = dict(zip(names, state, strict=True))
        model._jax_state_synced = False
        model.jax_state_sync()
        model._jax_state_synced = False
    return (None,) * len(names)


def layers_of(model: Any) -> list[Any]:
    """Returns a model and the layers in it."""
    return list(model._flatten_layers())


def call(model: Any, x: Any, training: bool) -> Any:
    """Calls a model, with `training` if it takes that."""
    return model(x, training=training) if model._call_has_training_arg else model(x)


def compute_loss(
    model: Any, x: Any, y: Any, y_pred: Any, weight: Any, training: bool = True
) -> Any:
    """Returns the loss of a batch, with the losses of the layers."""
    return model._compute_loss(
        x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training
    )


def track_loss(model: Any, loss: Any, x: Any) -> None:
    """Adds the loss of a batch to the mean that Keras reports."""
    context = mirrax.get_replica_context()
    # Keras has divided it by the number of replicas.
    scale = 1 if context is None else context.num_replicas_in_sync
    count = jax.tree.leaves(x)[0].shape[0]
    model._loss_tracker.update_state(loss * scale, sample_weight=count)
