"""`tf.keras.backend`: functions of Keras 2, which custom losses use.

Keras writes most of them with TensorFlow's functions, and gets those of `mirrax.tf`.
The ones here depend on attributes that only TensorFlow's tensors have.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from mirrax.tf.keras_support import internals
from mirrax.tf.namespaces.missing_names import unavailable

_MISSING = (
    "categorical_focal_crossentropy",
    "ctc_batch_cost",
    "ctc_decode",
    "ctc_label_dense_to_sparse",
    "gradients",
    "random_normal_variable",
    "random_uniform_variable",
    "resize_images",
    "rnn",
)

Function = Callable[..., Any]


@functools.cache
def install(keras: Any) -> None:
    """Makes the functions of `tf.keras.backend` work without TensorFlow."""
    ours = importlib.import_module("mirrax.tf")
    internals.replace_backend(ours, _functions(ours, keras.ops))


def _functions(tf: Any, ops: Any) -> dict[str, Function]:
    """Returns functions by name.

    Args:
        tf: The module `mirrax.tf`.
        ops: The module `keras.ops`.
    """

    def reduced(reduce: Function) -> Function:
        def call(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
            return reduce(_as_numbers(x), axis, keepdims)

        return call

    def sized(fill: Function) -> Function:
        def call(shape: Any, dtype: Any = None, name: Any = None) -> Any:
            return tf.Variable(fill(shape, dtype or tf.float32), name=name)

        return call

    def sparse_categorical_crossentropy(
        target: Any, output: Any, from_logits: bool = False, axis: int = -1
    ) -> Any:
        return ops.sparse_categorical_crossentropy(target, output, from_logits, axis)

    return {
        **{name: unavailable(f"tf.keras.backend.{name}") for name in _MISSING},
        "cast_to_floatx": lambda x: tf.cast(x, tf.float32),
        "categorical_crossentropy": ops.categorical_crossentropy,
        "concatenate": lambda tensors, axis=-1: ops.concatenate(tensors, axis),
        "conv1d": ops.conv,
        "conv2d": ops.conv,
        "conv3d": ops.conv,
        "count_params": lambda x: math.prod(x.shape),
        "dtype": lambda x: str(x.dtype),
        "in_top_k": lambda predictions, targets, k: ops.in_top_k(
            targets, predictions, k
        ),
        "is_sparse": lambda tensor: False,
        "mean": reduced(tf.reduce_mean),
        "ndim": lambda x: len(x.shape),
        "ones": sized(tf.ones),
        "repeat_elements": ops.repeat,
        "softmax": ops.softmax,
        "sparse_categorical_crossentropy": sparse_categorical_crossentropy,
        "std": reduced(tf.math.reduce_std),
        "switch": _switch,
        "var": reduced(tf.math.reduce_variance),
        "zeros": sized(tf.zeros),
    }


def _switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """Returns one of two values for each element, or row, of the condition."""
    expressions = (then_expression, else_expression)
    first, second = [jnp.asarray(e() if callable(e) else e) for e in expressions]
    condition = jnp.asarray(condition, bool)
    rows = condition.reshape(condition.shape + (1,) * (first.ndim - condition.ndim))
    return jnp.where(rows, first, second)


def _as_numbers(x: Any) -> Any:
    return jnp.asarray(x, jnp.float32) if x.dtype == bool else x
