"""Values that differ between replicas."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from mirrax.values.distributed import DistributedValues, describe_parts
from mirrax.values.layouts import Layout, Parts


class PerReplica(DistributedValues):
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


jax.tree_util.register_pytree_node(
    PerReplica,
    lambda value: (value.values, None),
    lambda _, parts: PerReplica(tuple(parts)),
)
