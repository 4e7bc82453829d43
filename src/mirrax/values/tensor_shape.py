"""Shapes that answer the questions of TensorFlow's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


class TensorShape(tuple[int | None, ...]):
    """A tuple of sizes; None stands for one that is not known.

    >>> shape = TensorShape([2, 3])
    >>> shape.as_list(), shape.rank, shape.num_elements(), shape == (2, 3)
    ([2, 3], 2, 6, True)
    """

    __slots__ = ()

    def __new__(cls, dims: Any = ()) -> TensorShape:
        return super().__new__(cls, [None if d is None else int(d) for d in dims])

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

    @property
    def rank(self) -> int:
        return len(self)

    ndims = rank

    @property
    def dims(self) -> list[int | None]:
        return list(self)

    def as_list(self) -> list[int | None]:
        return list(self)

    def is_fully_defined(self) -> bool:
        return None not in self

    def num_elements(self) -> int | None:
        return int(np.prod(np.array(self, int))) if self.is_fully_defined() else None

    def is_compatible_with(self, other: Any) -> bool:
        pairs = zip(self, other)
        same_rank = len(self) == len(other)
        return same_rank and all(None in pair or pair[0] == pair[1] for pair in pairs)

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises unless each known size is the same."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {tuple(other)} are incompatible")

    def concatenate(self, other: Any) -> TensorShape:
        return TensorShape((*self, *other))


def _of_leaves(_: None, sizes: Any) -> TensorShape:
    # Without a look at them: inside a trace, or a map over trees, they can be anything.
    return tuple.__new__(TensorShape, sizes)


# JAX takes apart tuples, and so those that know more, too.
jax.tree_util.register_pytree_node(
    TensorShape, lambda shape: (tuple(shape), None), _of_leaves
)
