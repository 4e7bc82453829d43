"""`tf.compat.v1.initializers`: they also take the dtype, and have other defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from mirrax.tf.dtypes import float32, int32
from mirrax.tf.keras_support.namespace import load
from mirrax.tf.random import stateful
from mirrax.tf.variables import initializers

_NORMAL = {"mean": 0.0, "stddev": 1.0, "seed": None}
_UNIFORM = {"minval": 0.0, "maxval": None, "seed": None}
_SCALING = {"scale": 1.0, "mode": "fan_in", "distribution": "truncated_normal"}


class Initializer:
    """A function of a shape and, if it is not the one given before, a dtype."""

    make: ClassVar[Callable[..., Any]]
    """Returns the values of a shape, a dtype, and the other arguments."""
    signature: ClassVar[inspect.Signature]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self._arguments = bound.arguments
        self._dtype = self._arguments.pop("dtype")

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None
    ) -> Any:
        kind = self._dtype if dtype is None else dtype
        return type(self).make(shape, kind, **self._arguments)


def _kind(make: Callable[..., Any], **defaults: Any) -> type[Initializer]:
    """Returns a class whose arguments have these defaults; `dtype` is the last."""
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)
        for name, value in {**defaults, "dtype": float32}.items()
    ]
    namespace = {"make": staticmethod(make), "signature": inspect.Signature(parameters)}
    return type("Initializer", (Initializer,), namespace)


def _of_version_2(kind: type[initializers.Initializer]) -> Callable[..., Any]:
    return lambda shape, dtype, **arguments: kind(**arguments)(shape, dtype)


def _of_keras(name: str) -> Callable[..., Any]:
    def make(shape: Any, dtype: Any, seed: Any = None, **arguments: Any) -> Any:
        if seed is None:
            # Keras' own would give the same values in each call.
            seed = int(stateful.uniform([], 0, 2**31 - 1, int32))
        kind = getattr(load("initializers"), name)
        return kind(seed=seed, **arguments)(tuple(shape), dtype)

    return make


def _truncated_normal(shape: Any, dtype: Any, mean: Any, stddev: Any, seed: Any) -> Any:
    return stateful.truncated_normal(shape, mean, stddev, dtype, seed)


def _identity(shape: Any, dtype: Any, gain: Any) -> Any:
    return load("initializers").Identity(gain)(tuple(shape), dtype)


constant = _kind(_of_version_2(initializers.ConstantInitializer), value=0)
zeros = _kind(_of_version_2(initializers.ZerosInitializer))
ones = _kind(_of_version_2(initializers.OnesInitializer))
random_uniform = _kind(_of_version_2(initializers.RandomUniformInitializer), **_UNIFORM)
random_normal = _kind(_of_version_2(initializers.RandomNormalInitializer), **_NORMAL)
truncated_normal = _kind(_truncated_normal, **_NORMAL)
variance_scaling = _kind(_of_keras("VarianceScaling"), **_SCALING, seed=None)
orthogonal = _kind(_of_keras("Orthogonal"), gain=1.0, seed=None)
identity = _kind(_identity, gain=1.0)
glorot_normal = _kind(_of_keras("GlorotNormal"), seed=None)
glorot_uniform = _kind(_of_keras("GlorotUniform"), seed=None)
he_normal = _kind(_of_keras("HeNormal"), seed=None)
he_uniform = _kind(_of_keras("HeUniform"), seed=None)
lecun_normal = _kind(_of_keras("LecunNormal"), seed=None)
lecun_uniform = _kind(_of_keras("LecunUniform"), seed=None)
