"""`PerReplica`: a value with one part for each replica."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from mirrax.devices.topology import Topology
from mirrax.values.array_like import ArrayLike
from mirrax.values.distributed_values import DistributedValues
from mirrax.values.layouts import Layout, Parts

_ADVICE = (
    "It has one part for each replica. Combine them with `strategy.reduce(op, value, "
    "axis)`, or look at them with `strategy.experimental_local_results(value)`."
)
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")


class NotAnArray:
    """Makes array operations fail with advice."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        raise AttributeError(f"A {kind} is not an array: it has no `{name}`. {_ADVICE}")

    def __format__(self, format_spec: str) -> str:
        if format_spec:
            raise _error(self, f"format with {format_spec!r}")
        return str(self)


def _error(value: object, what: str) -> TypeError:
    kind = type(value).__name__
    return TypeError(f"A {kind} is not an array. Received: {what} of it. {_ADVICE}")


def _refuse(name: str) -> None:
    words = {"__array__": "a NumPy function", "__jax_array__": "a JAX function"}
    what = words.get(name, f"`{name.strip('_')}`")

    def refused(self: NotAnArray, *_: Any, **__: Any) -> Any:
        raise _error(self, what)

    refused.__name__ = name
    setattr(NotAnArray, name, refused)


for _name in (
    *(f"__{name}__" for name in _ARITHMETIC),
    *(f"__r{name}__" for name in _ARITHMETIC),
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "neg", "abs", "round")),
    *(f"__{name}__" for name in ("float", "int", "complex", "getitem", "array")),
    "__jax_array__",
):
    _refuse(_name)


class PerReplica(DistributedValues, NotAnArray):
    """A value that differs between replicas: `values[i]` belongs to replica `i`.

    It is not an array: give it to `strategy.run`, `reduce` or `gather`, or look at its
    `values`.

    >>> PerReplica(("left", "right"))
    PerReplica:{
      0: 'left',
      1: 'right'
    }
    """

    __slots__ = ("__weakref__", "layout")
    _label = "PerReplica"

    def __init__(self, values: tuple[Any, ...] | list[Any] | Layout) -> None:
        self.layout = values if isinstance(values, Layout) else Parts(tuple(values))

    @property
    @override
    def values(self) -> tuple[Any, ...]:
        """The parts in this process, in replica order."""
        return self.layout.parts


class LocalPerReplica(ArrayLike, PerReplica):
    """A per-replica value on a worker with one replica; usable like that array."""

    __slots__ = ()

    @override
    def __jax_array__(self) -> jax.Array:
        return self.values[0]


def per_replica(layout: Layout, topology: Topology) -> PerReplica:
    """Returns a per-replica value of arrays, in the class that users get."""
    has_one_part = topology.job is not None and len(topology.local_devices) == 1
    return LocalPerReplica(layout) if has_one_part else PerReplica(layout)


jax.tree_util.register_pytree_node(
    PerReplica,
    lambda value: (value.values, None),
    lambda _, parts: PerReplica(tuple(parts)),
)
jax.tree_util.register_pytree_node(
    LocalPerReplica, lambda value: (value.values, None), lambda _, parts: parts[0]
)
