"""`tf.nest`: structures of tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

import mirrax
from mirrax.tf.missing_names import names_of

__all__ = [
    "assert_same_structure",
    "flatten",
    "is_nested",
    "map_structure",
    "pack_sequence_as",
]


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Returns the leaves; dicts are sorted by key, and None is a leaf."""
    return jax.tree.leaves(structure, is_leaf=_is_leaf)


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    for other in structure[1:]:
        assert_same_structure(structure[0], other)
    return jax.tree.map(func, *structure, is_leaf=_is_leaf)


def pack_sequence_as(
    structure: Any, flat_sequence: Any, expand_composites: bool = False
) -> Any:
    shape: Any = jax.tree.structure(structure, is_leaf=_is_leaf)
    values = list(flat_sequence)
    if len(values) != shape.num_leaves:
        raise ValueError(
            f"A structure with {shape.num_leaves} leaves needs as many values. "
            f"Received: {len(values)}."
        )
    return jax.tree.unflatten(shape, values)


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
    kinds = (mirrax.Variable, mirrax.DistributedValues)
    return value is None or isinstance(value, kinds)


__getattr__ = names_of("tf.nest")
