"""`PerReplica`: a value with one part for each replica."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from mirrax.devices.topology import Topology
from mirrax.values.array_like import ArrayLike
from mirrax.values.distributed_values import (
    DistributedValues,
    describe_parts,
    print_part,
)
from mirrax.values.layouts import Layout, Parts

_ADVICE = (
    "It has one part for each replica. Combine them with `strategy.reduce(op, value, "
    "axis)`, or look at them with `strategy.experimental_local_results(value)`."
)
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")


class NoArray:
    """Refuses what arrays can do, and says what to do instead."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        raise AttributeError(f"A {kind} is no array: it has no `{name}`. {_ADVICE}")

    def __format__(self, format_spec: str) -> str:
        if format_spec:
            raise _error(self, f"format with {format_spec!r}")
        return str(self)


def _error(value: object, what: str) -> TypeError:
    kind = type(value).__name__
    return TypeError(f"A {kind} is no array. Received: {what} of it. {_ADVICE}")


def _refuse(name: str) -> None:
    words = {"__array__": "a NumPy function", "__jax_array__": "a function of JAX"}
    what = words.get(name, f"`{name.strip('_')}`")

    def refused(self: NoArray, *_: Any, **__: Any) -> Any:
        raise _error(self, what)

    refused.__name__ = name
    setattr(NoArray, name, refused)


for _name in (
    *(f"__{name}__" for name in _ARITHMETIC),
    *(f"__r{name}__" for name in _ARITHMETIC),
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "neg", "abs", "round")),
    *(f"__{name}__" for name in ("float", "int", "complex", "getitem", "array")),
    "__jax_array__",
):
    _refuse(_name)


class PerReplica(DistributedValues, NoArray):
    """A value that differs between replicas: `values[i]` belongs to replica `i`.

    It is no array: give it to `strategy.run`, `reduce` or `gather`, or look at its
    `values`.

    >>> PerReplica(("left", "right"))
    PerReplica:{
      0: 'left',
      1: 'right'
    }
    """

    __slots__ = ("layout",)

    def __init__(self, values: tuple[Any, ...] | list[Any] | Layout) -> None:
        self.layout = values if isinstance(values, Layout) else Parts(tuple(values))

    @property
    @override
    def values(self) -> tuple[Any, ...]:
        return self.layout.parts

    @override
    def __repr__(self) -> str:
        return describe_parts("PerReplica", self.values)

    @override
    def __str__(self) -> str:
        return describe_parts("PerReplica", self.values, print_part)


class OwnPart(ArrayLike, PerReplica):
    """A per-replica value of which this worker runs one replica.

    It can be used like the array that it is here; other workers have other values.
    """

    __slots__ = ()

    @override
    def __jax_array__(self) -> jax.Array:
        part: jax.Array = self.values[0]
        return part


def per_replica(layout: Layout, topology: Topology) -> PerReplica:
    """Returns parts that are arrays as what users see of them."""
    is_own = topology.job is not None and len(topology.local_devices) == 1
    return OwnPart(layout) if is_own else PerReplica(layout)


jax.tree_util.register_pytree_node(
    PerReplica,
    lambda value: (value.values, None),
    lambda _, parts: PerReplica(tuple(parts)),
)
jax.tree_util.register_pytree_node(
    OwnPart, lambda value: (value.values, None), lambda _, parts: parts[0]
)
