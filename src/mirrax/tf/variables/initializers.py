"""Initializers of variables: functions of a shape and a dtype."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, float32
from mirrax.tf.namespaces.exports import export
from mirrax.tf.random import stateful
from mirrax.tf.tensors.creation import ones, zeros
from mirrax.tf.tensors.tensor import sizes


class Initializer:
    """A function of a shape and a dtype, with the arguments that made it.

    >>> initializer = constant_initializer(3.0)
    >>> initializer([2]).tolist(), initializer.get_config()
    ([3.0, 3.0], {'value': 3.0})
    """

    make: ClassVar[Callable[..., Any]]
    """Returns the values of a shape and the other arguments, `dtype` among them."""
    __signature__: ClassVar[inspect.Signature]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        self._arguments = bound.arguments

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None
    ) -> Any:
        given = {} if dtype is None else {"dtype": dtype}
        return type(self).make(shape, **{"dtype": float32, **self._arguments, **given})

    def get_config(self) -> dict[str, Any]:
        return dict(self._arguments)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        known = cls.__signature__.parameters
        return cls(**{name: config[name] for name in config if name in known})


def initializer(
    name: str, make: Callable[..., Any], **defaults: Any
) -> type[Initializer]:
    """Returns a class of initializers whose arguments have these defaults."""
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)
        for name, value in defaults.items()
    ]
    signature = inspect.Signature(parameters)
    namespace = {"make": staticmethod(make), "__signature__": signature}
    return type(name, (Initializer,), namespace)


def constant_of(shape: Any, dtype: Any, value: Any) -> Any:
    """Returns a tensor of a value, or of several."""
    given = jnp.asarray(value, canonical(dtype))
    size = sizes(shape)
    return given.reshape(size) if given.ndim else jnp.full(size, given)


_PRIVATE = frozenset(globals())

constant_initializer = initializer("constant_initializer", constant_of, value=0)
zeros_initializer = initializer("zeros_initializer", zeros)
ones_initializer = initializer("ones_initializer", ones)
random_uniform_initializer = initializer(
    "random_uniform_initializer",
    stateful.uniform,
    minval=-0.05,
    maxval=0.05,
    seed=None,
)
random_normal_initializer = initializer(
    "random_normal_initializer",
    stateful.normal,
    mean=0.0,
    stddev=0.05,
    seed=None,
)

export(globals(), _PRIVATE)
