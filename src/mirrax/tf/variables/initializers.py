"""Initializers of variables: functions of a shape and a dtype."""

from __future__ import annotations

from typing import Any, Self

import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, float32
from mirrax.tf.random import stateful
from mirrax.tf.tensors.tensor import sizes


class Initializer:
    """A function of a shape and a dtype, with the arguments that made it.

    >>> initializer = ConstantInitializer(3.0)
    >>> initializer([2]).tolist(), initializer.get_config()
    ([3.0, 3.0], {'value': 3.0})
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments

    def __call__(self, shape: Any, dtype: Any = float32) -> Any:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return dict(self._arguments)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**{name: config[name] for name in config if name != "dtype"})


class ConstantInitializer(Initializer):
    def __init__(self, value: Any = 0) -> None:
        super().__init__(value=value)

    def __call__(self, shape: Any, dtype: Any = float32) -> Any:
        given = jnp.asarray(self._arguments["value"], canonical(dtype))
        size = sizes(shape)
        return given.reshape(size) if given.ndim else jnp.full(size, given)


class ZerosInitializer(Initializer):
    def __call__(self, shape: Any, dtype: Any = float32) -> Any:
        return jnp.zeros(sizes(shape), canonical(dtype))


class OnesInitializer(Initializer):
    def __call__(self, shape: Any, dtype: Any = float32) -> Any:
        return jnp.ones(sizes(shape), canonical(dtype))


class RandomUniformInitializer(Initializer):
    def __init__(
        self, minval: Any = -0.05, maxval: Any = 0.05, seed: Any = None
    ) -> None:
        super().__init__(minval=minval, maxval=maxval, seed=seed)

    def __call__(self, shape: Any, dtype: Any = float32) -> Any:
        return stateful.uniform(shape, dtype=dtype, **self._arguments)


class RandomNormalInitializer(Initializer):
    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: Any = None) -> None:
        super().__init__(mean=mean, stddev=stddev, seed=seed)

    def __call__(self, shape: Any, dtype: Any = float32) -> Any:
        return stateful.normal(shape, dtype=dtype, **self._arguments)


constant_initializer = ConstantInitializer
zeros_initializer = ZerosInitializer
ones_initializer = OnesInitializer
random_uniform_initializer = RandomUniformInitializer
random_normal_initializer = RandomNormalInitializer

__all__ = [
    "constant_initializer",
    "ones_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "zeros_initializer",
]
