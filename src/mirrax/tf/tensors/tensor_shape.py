"""`TensorShape`: the shape of a tensor, of which some sizes may be unknown."""

from __future__ import annotations

from typing import Any, NoReturn

import jax
import numpy as np
from jax.export import is_symbolic_dim


class TensorShape(tuple[int | None, ...]):
    """A tuple of sizes; None is an unknown size. `TensorShape(None)` has no known rank.

    >>> shape = tf.TensorShape([2, 3])
    >>> shape.as_list(), shape.rank, shape.num_elements(), shape == (2, 3)
    ([2, 3], 2, 6, True)
    """

    __slots__ = ()

    def __new__(cls, dims: Any = ()) -> TensorShape:
        if dims is None or isinstance(dims, _UnknownShape):
            return super().__new__(_UnknownShape)
        dims = (dims,) if isinstance(dims, int) else dims
        return super().__new__(cls, map(_size, dims))

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    @property
    def rank(self) -> int | None:
        """The number of dimensions."""
        return len(self)

    ndims = rank

    @property
    def dims(self) -> list[int | None] | None:
        """The sizes as a list."""
        return list(self)

    def as_list(self) -> list[int | None]:
        """Returns the sizes as a list."""
        return list(self)

    def is_fully_defined(self) -> bool:
        """Returns whether all sizes are known."""
        return None not in self

    def num_elements(self) -> int | None:
        """Returns the product of the sizes; None if one is unknown."""
        return int(np.prod(np.array(self, int))) if self.is_fully_defined() else None

    def is_compatible_with(self, other: Any) -> bool:
        """Returns whether an array can have both shapes."""
        other = TensorShape(other)
        if other.rank is None:
            return True
        pairs = zip(self, other)
        same_rank = len(self) == len(other)
        return same_rank and all(None in pair or pair[0] == pair[1] for pair in pairs)

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises unless an array can have both shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """Returns this shape with its unknown sizes taken from the other."""
        other = TensorShape(other)
        self.assert_is_compatible_with(other)
        if other.rank is None:
            return self
        pairs = zip(self, other, strict=True)
        return TensorShape([b if a is None else a for a, b in pairs])

    def with_rank(self, rank: int) -> TensorShape:
        """Returns this shape; raises unless it has this rank."""
        return self.merge_with([None] * rank)

    def concatenate(self, other: Any) -> TensorShape:
        """Returns the sizes of this shape, then those of the other."""
        other = TensorShape(other)
        return other if other.rank is None else TensorShape((*self, *other))


def _size(given: Any) -> Any:
    """Returns a size; None and symbols, which stand for any size, as they are."""
    return given if given is None or is_symbolic_dim(given) else int(given)


class _UnknownShape(TensorShape):
    """A shape of which not even the number of dimensions is known."""

    __slots__ = ()

    rank = ndims = dims = None

    def as_list(self) -> NoReturn:
        raise ValueError(
            "The sizes of a shape are known only if its rank is. Received: "
            "TensorShape(None). Look at `shape.rank` first."
        )

    __iter__ = __len__ = as_list

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: Any) -> Any:
        return self if isinstance(key, slice) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _UnknownShape)

    def __hash__(self) -> int:
        return hash(_UnknownShape)

    def __repr__(self) -> str:
        return "TensorShape(None)"

    def __str__(self) -> str:
        return "<unknown>"

    def is_fully_defined(self) -> bool:
        return False

    def is_compatible_with(self, other: Any) -> bool:
        return True

    def merge_with(self, other: Any) -> TensorShape:
        return TensorShape(other)

    def concatenate(self, other: Any) -> TensorShape:
        return self


# JAX flattens tuples, so it must flatten this subclass. `tuple.__new__` skips the
# conversion to int: inside a trace or a tree map, the leaves can be anything.
jax.tree_util.register_pytree_node(
    TensorShape,
    lambda shape: (tuple[Any, ...](shape), None),
    lambda _, sizes: tuple.__new__(TensorShape, sizes),
)
