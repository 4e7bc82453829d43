"""Gathering, scattering, searching and sorting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.dtypes import canonical, int32
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import library_of, operands, sizes, tensor


class Unique(NamedTuple):
    """Unique values in the order of their first occurrence."""

    y: Any
    idx: Any


class UniqueWithCounts(NamedTuple):
    """Unique values in the order of their first occurrence, with their counts."""

    y: Any
    idx: Any
    count: Any


def keys_of(indices: Any) -> tuple[Any, ...]:
    return tuple(jnp.moveaxis(indices, -1, 0))


_PRIVATE = frozenset(globals())


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: int | None = None,
    batch_dims: int | None = 0,
) -> Any:
    if isinstance(indices, RaggedTensor):
        return indices.map(lambda at: gather(params, at, axis=axis))
    params, indices = tensor(params), tensor(indices)
    num_batch = batch_dims or 0
    num_batch += indices.ndim if num_batch < 0 else 0
    axis = (batch_dims or 0) if axis is None else axis
    axis += params.ndim if axis < 0 else 0
    library = library_of(params)
    take: Any = functools.partial(library.take, axis=axis - num_batch)
    if library is np:
        for _ in range(num_batch):
            take = functools.partial(_take_rows, take)
        return host(take(params, np.asarray(indices)))
    for _ in range(num_batch):
        take = jax.vmap(take)
    return take(params, indices)


def _take_rows(take: Callable[..., Any], params: Any, indices: Any) -> Any:
    rows = [take(*pair) for pair in zip(params, indices, strict=True)]
    return np.array(rows, params.dtype)


def gather_nd(
    params: Array,
    indices: Array,
    batch_dims: int = 0,
    name: Any = None,
    bad_indices_policy: str = "",
) -> Any:
    pick: Callable[[Any, Any], Any] = lambda values, at: values[keys_of(at)]  # noqa: E731
    for _ in range(batch_dims):
        pick = jax.vmap(pick)
    return pick(params, indices)


def scatter_nd(indices: Array, updates: Array, shape: Any) -> Any:
    empty = jnp.zeros(sizes(shape), updates.dtype)
    return empty.at[keys_of(indices)].add(updates)


def _scatter(update: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def scatter(tensor: Array, indices: Array, updates: Array) -> Any:
        return update(tensor.at[keys_of(indices)], updates)

    return scatter


tensor_scatter_nd_add = _scatter(lambda chosen, x: chosen.add(x))
tensor_scatter_nd_sub = _scatter(lambda chosen, x: chosen.add(-x))
tensor_scatter_nd_max = _scatter(lambda chosen, x: chosen.max(x))
tensor_scatter_nd_min = _scatter(lambda chosen, x: chosen.min(x))
tensor_scatter_nd_update = _scatter(lambda chosen, x: chosen.set(x))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return jnp.argwhere(tensor(condition))
    if isinstance(condition, RaggedTensor):
        return condition.map(where, x, y)
    chosen = operands(x, y)
    return host(library_of(*chosen).where(tensor(condition), *chosen))


def boolean_mask(tensor: Array, mask: Any, axis: int | None = None) -> Any:
    library = library_of(tensor)
    # Strings are on the host.
    mask = np.asarray(mask) if library is np else jnp.asarray(mask)
    chosen = library.moveaxis(tensor, axis or 0, 0)[mask]
    return library.moveaxis(chosen, 0, axis or 0) if mask.ndim == 1 else chosen


def sort(values: Array, axis: int = -1, direction: str = "ASCENDING") -> Any:
    return jnp.sort(values, axis, descending=_descends(direction))


def argsort(
    values: Array, axis: int = -1, direction: str = "ASCENDING", stable: bool = False
) -> Any:
    descending = _descends(direction)
    return jnp.argsort(values, axis, descending=descending).astype(jnp.int32)


def _descends(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            "`direction` must be 'ASCENDING' or 'DESCENDING'. Received: "
            f"direction={direction!r}."
        )
    return direction == "DESCENDING"


def searchsorted(
    sorted_sequence: Array, values: Array, side: str = "left", out_type: Any = int32
) -> Any:
    find: Callable[[Any, Any], Any] = lambda s, v: jnp.searchsorted(s, v, side=side)  # noqa: E731
    for _ in range(sorted_sequence.ndim - 1):
        find = jax.vmap(find)
    return find(sorted_sequence, values).astype(canonical(out_type))


def unique(x: Any, out_idx: Any = int32) -> Unique:
    found = unique_with_counts(x, out_idx)
    return Unique(found.y, found.idx)


def unique_with_counts(x: Any, out_idx: Any = int32) -> UniqueWithCounts:
    values, first, inverse, counts = np.unique(
        np.asarray(x), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    place = np.argsort(order)
    kind = canonical(out_idx)
    return UniqueWithCounts(
        tensor(values[order]),
        jnp.asarray(place[inverse], kind),
        jnp.asarray(counts[order], kind),
    )


def unravel_index(indices: Array, dims: Any) -> Any:
    return jnp.stack(jnp.unravel_index(indices, sizes(dims)))


def dynamic_partition(data: Array, partitions: Array, num_partitions: int) -> list[Any]:
    return [data[partitions == i] for i in range(num_partitions)]


def dynamic_stitch(indices: Any, data: Any) -> Any:
    places = [tensor(i) for i in indices]
    values = [tensor(d) for d in data]
    rest = values[0].shape[places[0].ndim :]
    size = max(int(jnp.max(place)) for place in places if place.size) + 1
    merged = jnp.zeros((size, *rest), values[0].dtype)
    for place, value in zip(places, values, strict=True):
        merged = merged.at[place.reshape(-1)].set(value.reshape(-1, *rest))
    return merged


def reverse_sequence(
    input: Array, seq_lengths: Array, seq_axis: int = 0, batch_axis: int = 0
) -> Any:
    array = jnp.moveaxis(input, (batch_axis, seq_axis), (0, 1))
    steps = jnp.arange(array.shape[1])[None]
    lengths = seq_lengths[:, None]
    order = jnp.where(steps < lengths, lengths - 1 - steps, steps)
    swapped = jax.vmap(lambda row, at: row[at])(array, order)
    return jnp.moveaxis(swapped, (0, 1), (batch_axis, seq_axis))


def histogram_fixed_width(
    values: Array, value_range: Array, nbins: int = 100, dtype: Any = int32
) -> Any:
    low, high = value_range
    scaled = jnp.floor((values - low) / (high - low) * nbins)
    bins = jnp.clip(scaled, 0, nbins - 1).astype(jnp.int32)
    return jnp.bincount(bins.reshape(-1), length=nbins).astype(canonical(dtype))


operations(globals(), _PRIVATE)
