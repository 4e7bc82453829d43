"""`tf.nest`: structures of tuples, lists and dicts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax

import mirrax
from mirrax.tf.tensors.indexed_slices import IndexedSlices


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Returns the leaves; dicts are sorted by key, and None is a leaf.

    Args:
        expand_composites: Whether the parts of a `PerReplica` or of `IndexedSlices`
            are leaves.
    """
    leaves = jax.tree.leaves(structure, is_leaf=_is_leaf)
    if not expand_composites:
        return leaves
    return [part for leaf in leaves for part in _parts(leaf)]


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    for other in structure[1:]:
        assert_same_structure(structure[0], other)
    if not kwargs.get("expand_composites"):
        mapped = jax.tree.map(func, *structure, is_leaf=_is_leaf)
        return _ordered_like(structure[0], mapped)
    columns = [flatten(one, expand_composites=True) for one in structure]
    results = [func(*row) for row in zip(*columns, strict=True)]
    return pack_sequence_as(structure[0], results, expand_composites=True)


def pack_sequence_as(
    structure: Any, flat_sequence: Any, expand_composites: bool = False
) -> Any:
    leaves, shape = jax.tree.flatten(structure, is_leaf=_is_leaf)
    values = list(flat_sequence)
    sizes = [len(_parts(leaf)) if expand_composites else 1 for leaf in leaves]
    if len(values) != sum(sizes):
        raise ValueError(
            f"A structure with {sum(sizes)} leaves needs as many values. "
            f"Received: {len(values)}."
        )
    if expand_composites:
        rest = iter(values)
        values = [
            _joined(leaf, list(itertools.islice(rest, size)))
            for leaf, size in zip(leaves, sizes, strict=True)
        ]
    return _ordered_like(structure, jax.tree.unflatten(shape, values))


def _parts(leaf: Any) -> list[Any]:
    if isinstance(leaf, IndexedSlices):
        parts = [leaf.values, leaf.indices, leaf.dense_shape]
        return parts if leaf.dense_shape is not None else parts[:2]
    return list(leaf.values) if isinstance(leaf, mirrax.PerReplica) else [leaf]


def _joined(leaf: Any, parts: list[Any]) -> Any:
    if isinstance(leaf, IndexedSlices):
        return IndexedSlices(*parts)
    if isinstance(leaf, mirrax.PerReplica):
        return mirrax.PerReplica(tuple(parts))
    return parts[0]


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raises a TypeError or ValueError unless both have the same nesting."""
    first: Any = jax.tree.structure(nest1, is_leaf=_is_leaf)
    second: Any = jax.tree.structure(nest2, is_leaf=_is_leaf)
    if first == second:
        return
    kind = TypeError if first.num_leaves == second.num_leaves else ValueError
    raise kind(
        "The two structures must have the same nesting. Received: "
        f"{first} and {second}."
    )


def is_nested(structure: Any) -> bool:
    return isinstance(structure, list | tuple | dict)


def _is_leaf(value: Any) -> bool:
    kinds = (mirrax.Variable, mirrax.DistributedValues, IndexedSlices)
    return value is None or isinstance(value, kinds)


def _ordered_like(example: Any, tree: Any) -> Any:
    """Returns a structure whose dicts have their keys in the order of another's.

    >>> _ordered_like({"b": 0, "a": 0}, {"a": 1, "b": 2})
    {'b': 2, 'a': 1}
    """
    if type(example) is dict and type(tree) is dict:
        return {key: _ordered_like(example[key], tree[key]) for key in example}
    if isinstance(example, list | tuple) and type(example) is type(tree):
        items = [_ordered_like(*pair) for pair in zip(example, tree, strict=True)]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree
