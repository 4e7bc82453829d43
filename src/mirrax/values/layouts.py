"""The four layouts of a per-replica value: parts, joined, replicated, SPMD."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mirrax._jax.arrays import assembled, is_stored, shards, uncommitted, whole
from mirrax._jax.traces import evaluated, is_eager
from mirrax.devices.topology import AXIS, Topology

ShapeDtype = tuple[tuple[int, ...], str]
"""Shape and dtype of an array."""


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """One value per local replica, of any type.

    Args:
        topology: Their devices, if known.
        shapes: Shape and dtype of the part on each replica of all workers, if the
            workers have exchanged them.
    """

    parts: tuple[Any, ...]
    topology: Topology | None = None
    shapes: tuple[ShapeDtype, ...] | None = None


@dataclasses.dataclass(eq=False)  # not frozen: that takes three times as long
class Joined:
    """One array over all replicas, sharded along its first axis.

    It concatenates the parts; scalar parts form a vector. `is_weak` marks Python
    numbers: programs give them JAX's weak type, which a sharded array cannot have.
    """

    array: jax.Array
    is_scalar: bool
    topology: Topology
    is_weak: bool = False

    @functools.cached_property
    def parts(self) -> tuple[Any, ...]:
        if isinstance(self.array, jax.core.Tracer):
            # On a single device, a scalar part may stay a scalar.
            is_whole = self.topology.is_single
            count = self.topology.num_replicas
            pieces = [self.array] if is_whole else jnp.split(self.array, count)
            return tuple(self._shaped(pieces))
        # They are cached, so they must not be tracers of the current trace.
        with evaluated():
            pieces = self._shaped(shards(self.array))
            return tuple(uncommitted(piece) for piece in pieces)

    def _shaped(self, pieces: Sequence[jax.Array]) -> list[jax.Array]:
        return [piece.reshape(()) if self.is_scalar else piece for piece in pieces]


@dataclasses.dataclass(eq=False)
class Replicated:
    """One replicated array: the parts of all replicas are equal."""

    array: jax.Array
    topology: Topology

    @functools.cached_property
    def parts(self) -> tuple[Any, ...]:
        if isinstance(self.array, jax.core.Tracer):
            return (self.array,) * self.topology.num_replicas
        return tuple(uncommitted(s) for s in shards(self.array))


ShapesOnReplicas = Callable[[Sequence[jax.Array]], Sequence[Sequence[tuple[int, ...]]]]
"""Returns for each traced value its shape on every replica."""


def equal_shapes(values: Sequence[jax.Array]) -> Sequence[Sequence[tuple[int, ...]]]:
    """Returns the shapes on every replica where one trace stands for all."""
    return [[value.shape] * lax.axis_size(AXIS) for value in values]


@dataclasses.dataclass(frozen=True, eq=False)
class Spmd:
    """One traced value that stands for the part of each replica.

    Args:
        shapes_on_replicas: Returns the shapes that traced values have.
    """

    value: jax.Array
    shapes_on_replicas: ShapesOnReplicas = equal_shapes

    @functools.cached_property
    def shapes(self) -> tuple[ShapeDtype, ...]:
        """The shape and dtype on each replica."""
        (shapes,) = self.shapes_on_replicas([self.value])
        return tuple((shape, str(self.value.dtype)) for shape in shapes)

    @functools.cached_property
    def parts(self) -> tuple[Any, ...]:
        return tuple(lax.all_gather(self.value, AXIS))


Layout = Parts | Joined | Replicated | Spmd
"""How the parts of a per-replica value are held: `parts` has one per local replica."""


def join_parts(parts: tuple[Any, ...], topology: Topology) -> jax.Array:
    """Returns parts of equal shape as the array of a `Joined` layout.

    Copies nothing, but reshapes scalars.
    """
    require_parts(parts, topology)
    if topology.is_local and not is_eager():
        arrays = [jnp.asarray(part) for part in parts]
        try:
            return jnp.stack(arrays) if arrays[0].ndim == 0 else jnp.concatenate(arrays)
        except ValueError as error:
            raise ValueError(
                "A derivative in eager code cannot combine what lies on several "
                f"devices. Received: {error}. Take the derivative inside the function "
                "that `strategy.run` calls, and reduce the gradients."
            ) from error
    # A trace has no more than the parts of its own worker.
    with evaluated():
        return _assemble(parts, topology)


def _assemble(parts: tuple[Any, ...], topology: Topology) -> jax.Array:
    pieces = _put_each(parts, topology)
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
    """Returns `value` replicated over all devices; equal on all workers."""
    if topology.is_single:
        return to_device(value, topology.devices[0])
    if not topology.is_local:
        # `device_put` would compare the whole value over the network.
        if is_stored(value):
            if value.sharding == topology.replicated:
                return value
            value = whole(value)
        return replicate_parts((value,) * len(topology.local_devices), topology)
    return jax.device_put(value, topology.replicated)


def replicate_parts(parts: Sequence[Any], topology: Topology) -> jax.Array:
    """Returns parts that are known to be equal as one replicated array."""
    pieces = _put_each(parts, topology)
    return assembled(pieces[0].shape, topology.replicated, pieces)


def to_device(value: Any, device: jax.Device) -> jax.Array:
    """Returns `value` as an uncommitted array on `device`."""
    return uncommitted(_put(value, device))


def _put_each(parts: Sequence[Any], topology: Topology) -> list[jax.Array]:
    return [_put(p, d) for p, d in zip(parts, topology.local_devices, strict=True)]


def _put(value: Any, device: jax.Device) -> jax.Array:
    if is_stored(value) and value.devices() == {device}:
        return value
    if is_stored(value):
        # A cut array that JAX puts together may keep the axes of its mesh in its type.
        value = whole(value)
    return jax.device_put(value, device)


def _as_vector(scalar: jax.Array, device: jax.Device) -> jax.Array:
    with jax.default_device(device):
        return _reshape(scalar)


@jax.jit
def _reshape(scalar: jax.Array) -> jax.Array:
    return scalar.reshape(1)
