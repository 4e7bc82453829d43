"""Variables of which each replica stores a part, and how programs use their arrays."""

from __future__ import annotations

import jax
from typing_extensions import override

from mirrax.collectives.shard_layout import ShardLayout
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.variable import Variable, register_as_pytree


class ShardedVariable(MirroredVariable):
    """A variable with one value, of which each replica stores a part."""

    @property
    @override
    def layout(self) -> ShardLayout:
        layout = ShardLayout.of(self._shape, self.topology.num_replicas)
        assert layout is not None
        return layout


register_as_pytree(ShardedVariable)


def to_stored(variable: Variable, value: jax.Array) -> jax.Array:
    """Returns, in a program, what is stored for the value of a variable."""
    return value if variable.layout is None else variable.layout.pad(value)


def from_stored(variable: Variable, stored: jax.Array) -> jax.Array:
    """Returns, in a program, the value of a variable that stores this array."""
    return stored if variable.layout is None else variable.layout.trim(stored)
