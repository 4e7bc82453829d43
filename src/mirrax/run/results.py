"""What a replica function returns: its arrays, and everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax.run.hidden import refuse_hidden_tracers
from mirrax.trees import Tree
from mirrax.values.array_like import as_arrays
from mirrax.values.mirrored import Mirrored


def split_result(result: Tree) -> tuple[list[jax.Array], Any]:
    """Returns the arrays in a result, and what is needed to put it together again."""
    leaves, structure = trees.flatten(result)
    leaves = [x.array if isinstance(x, Mirrored) else x for x in leaves]
    is_array = [isinstance(x, jax.Array | np.ndarray | np.generic) for x in leaves]
    arrays = as_arrays([x for x, flag in zip(leaves, is_array, strict=True) if flag])
    rest = [None if flag else x for x, flag in zip(leaves, is_array, strict=True)]
    for leaf in rest:
        refuse_hidden_tracers(leaf)
    return arrays, (structure, is_array, rest)


def join_result(result: Any, values: Sequence[Any]) -> Tree:
    """Returns the structure that `split_result` took apart, with these arrays."""
    structure, is_array, rest = result
    given = iter(values)
    return trees.unflatten(
        structure,
        [next(given) if flag else x for flag, x in zip(is_array, rest, strict=True)],
    )
