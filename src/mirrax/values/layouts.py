"""The four forms in which the parts of a per-replica value are held."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from mirrax._jax.arrays import assembled, is_stored, shards, uncommitted
from mirrax._jax.traces import evaluated, is_eager
from mirrax.devices.topology import AXIS, Topology

Kind = tuple[tuple[int, ...], str]
"""Shape and dtype of an array."""


class Layout(abc.ABC):
    """How the parts of a per-replica value are held."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Any, ...]:
        """One value per local replica."""


@dataclasses.dataclass(frozen=True, eq=False)
class Parts(Layout):
    """One value per local replica, of any kind.

    Args:
        held: The values.
        topology: The devices they lie on, where that is known.
        kinds: Shape and dtype of the part on each replica of all workers, where the
            workers have told each other.
    """

    held: tuple[Any, ...]
    topology: Topology | None = None
    kinds: tuple[Kind, ...] | None = None

    @property
    @override
    def parts(self) -> tuple[Any, ...]:
        return self.held


@dataclasses.dataclass(eq=False)  # frozen, each would take three times as long
class Joined(Layout):
    """One array over all replicas, split among them along its first axis.

    The parts stand one after another; scalars stand in a vector. If the parts are
    Python numbers, programs give them JAX' weak type, which a joined array cannot have.
    """

    array: jax.Array
    is_scalar: bool
    topology: Topology
    is_weak: bool = False

    @functools.cached_property
    def parts(self) -> tuple[Any, ...]:
        if isinstance(self.array, jax.core.Tracer):
            return tuple(self._shaped(self._cut()))
        # Kept, so they must be no values of the trace that happens to ask for them.
        with evaluated():
            pieces = self._shaped(shards(self.array))
            return tuple(uncommitted(piece) for piece in pieces)

    def _cut(self) -> list[jax.Array]:
        num_replicas = self.topology.num_replicas
        return list(self.array.reshape(num_replicas, -1, *self.array.shape[1:]))

    def _shaped(self, pieces: Sequence[jax.Array]) -> list[jax.Array]:
        return [piece.reshape(()) if self.is_scalar else piece for piece in pieces]


@dataclasses.dataclass(eq=False)
class Alike(Layout):
    """One replicated array: every replica's part is equal to it."""

    array: jax.Array
    topology: Topology

    @functools.cached_property
    def parts(self) -> tuple[Any, ...]:
        if isinstance(self.array, jax.core.Tracer):
            return (self.array,) * self.topology.num_replicas
        return tuple(uncommitted(s) for s in shards(self.array))


@dataclasses.dataclass(frozen=True, eq=False)
class Spmd(Layout):
    """One traced value that stands for the part of whichever replica runs the trace."""

    value: jax.Array

    @functools.cached_property
    def parts(self) -> tuple[Any, ...]:
        return tuple(lax.all_gather(self.value, AXIS))


def join(parts: tuple[Any, ...], topology: Topology) -> jax.Array:
    """Returns parts of equal shape as one array of the `Joined` form, without a copy.

    Scalars cost a reshape each.
    """
    require_parts(parts, topology)
    if not is_eager():
        arrays = [jnp.asarray(part) for part in parts]
        return jnp.stack(arrays) if arrays[0].ndim == 0 else jnp.concatenate(arrays)
    pieces = [
        _put(part, device)
        for part, device in zip(parts, topology.local_devices, strict=True)
    ]
    if pieces[0].ndim == 0:
        pieces = [
            _as_vector(piece, device)
            for piece, device in zip(pieces, topology.local_devices, strict=True)
        ]
    shape = (pieces[0].shape[0] * topology.num_replicas, *pieces[0].shape[1:])
    return assembled(shape, topology.split, pieces)


def require_parts(parts: Sequence[Any], topology: Topology) -> None:
    """Raises unless there is a part for each local replica."""
    if len(parts) != len(topology.local_devices):
        raise ValueError(
            "A per-replica value needs a part for each replica. Received: "
            f"{len(parts)} part(s) for {len(topology.local_devices)} replica(s) on "
            f"{list(topology.names)}. Use the strategy that made the value."
        )


def replicate(value: Any, topology: Topology) -> jax.Array:
    """Returns `value` as one array that every replica holds whole.

    With several workers each of them must bring an equal value.
    """
    if topology.is_single:
        return to_device(value, topology.devices[0])
    if not topology.is_local:
        return _replicate_here(value, topology)
    array: jax.Array = jax.device_put(value, topology.replicated)
    return array


def _replicate_here(value: Any, topology: Topology) -> jax.Array:
    """Returns a replicated array of all workers, made of what this one brings.

    `device_put` would let the workers compare the whole value over the network.
    """
    if is_stored(value):
        if value.sharding == topology.replicated:
            return value  # type: ignore[no-any-return]
        value = shards(value)[0]
    return mirror((value,) * len(topology.local_devices), topology)


def mirror(parts: Sequence[Any], topology: Topology) -> jax.Array:
    """Returns parts that are known to be equal as one replicated array."""
    pieces = [
        _put(part, device)
        for part, device in zip(parts, topology.local_devices, strict=True)
    ]
    return assembled(pieces[0].shape, topology.replicated, pieces)


def to_device(value: Any, device: jax.Device) -> jax.Array:
    """Returns `value` as an array on `device`, not tied to it."""
    return uncommitted(_put(value, device))


def _put(value: Any, device: jax.Device) -> jax.Array:
    """Returns `value` as an array on `device`."""
    if is_stored(value) and value.devices() == {device}:
        return value  # type: ignore[no-any-return]
    array: jax.Array = jax.device_put(value, device)
    return array


def _as_vector(scalar: jax.Array, device: jax.Device) -> jax.Array:
    with jax.default_device(device):
        vector: jax.Array = _reshape(scalar)
        return vector


@jax.jit
def _reshape(scalar: jax.Array) -> jax.Array:
    return scalar.reshape(1)
