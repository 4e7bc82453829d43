"""`tf.compat.v1.initializers`: they also take the dtype, and have other defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrax.tf.dtypes import float32, int32
from mirrax.tf.keras_support.namespace import load
from mirrax.tf.random import stateful
from mirrax.tf.tensors import creation
from mirrax.tf.variables import initializers

_NORMAL = {"mean": 0.0, "stddev": 1.0, "seed": None}
_UNIFORM = {"minval": 0.0, "maxval": None, "seed": None}
_SCALING = {"scale": 1.0, "mode": "fan_in", "distribution": "truncated_normal"}


def _kind(make: Callable[..., Any], **defaults: Any) -> type[initializers.Initializer]:
    return initializers.initializer("Initializer", make, **defaults, dtype=float32)


def _of_keras(name: str) -> Callable[..., Any]:
    def make(shape: Any, dtype: Any, seed: Any = None, **arguments: Any) -> Any:
        if seed is None:
            # Keras' own would give the same values in each call.
            seed = int(stateful.uniform([], 0, 2**31 - 1, int32))
        kind = getattr(load("initializers"), name)
        return kind(seed=seed, **arguments)(tuple(shape), dtype)

    return make


def _identity(shape: Any, dtype: Any, gain: Any) -> Any:
    return load("initializers").Identity(gain)(tuple(shape), dtype)


constant = _kind(initializers.constant_of, value=0)
zeros = _kind(creation.zeros)
ones = _kind(creation.ones)
random_uniform = _kind(stateful.uniform, **_UNIFORM)
random_normal = _kind(stateful.normal, **_NORMAL)
truncated_normal = _kind(stateful.truncated_normal, **_NORMAL)
variance_scaling = _kind(_of_keras("VarianceScaling"), **_SCALING, seed=None)
orthogonal = _kind(_of_keras("Orthogonal"), gain=1.0, seed=None)
identity = _kind(_identity, gain=1.0)
glorot_normal = _kind(_of_keras("GlorotNormal"), seed=None)
glorot_uniform = _kind(_of_keras("GlorotUniform"), seed=None)
he_normal = _kind(_of_keras("HeNormal"), seed=None)
he_uniform = _kind(_of_keras("HeUniform"), seed=None)
lecun_normal = _kind(_of_keras("LecunNormal"), seed=None)
lecun_uniform = _kind(_of_keras("LecunUniform"), seed=None)
