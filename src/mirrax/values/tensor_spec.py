"""`TensorSpec` and `TensorShape`: descriptions of arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from mirrax.errors import SignatureMismatch
from mirrax.values.array_like import as_array, is_array

Shape = tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, init=False)
class TensorSpec:
    """Shape and dtype of an array; a dimension that is None can have any size.

    >>> @mirrax.function(input_signature=[TensorSpec([None, 2])])
    ... def total(rows):
    ...     return rows.sum()
    >>> float(total(np.ones((3, 2), np.float32)))
    6.0
    """

    shape: Shape | None
    dtype: np.dtype[Any]
    name: str | None

    def __init__(
        self,
        shape: Sequence[int | None] | None,
        dtype: Any = np.float32,
        name: str | None = None,
    ) -> None:
        sizes = None if isinstance(shape, _UnknownShape) else shape
        object.__setattr__(self, "shape", None if sizes is None else tuple(sizes))
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        shape = "<unknown>" if self.shape is None else self.shape
        dtype = self.dtype_text(self.dtype)
        return f"TensorSpec(shape={shape}, dtype={dtype}, name={self.name!r})"

    @staticmethod
    def dtype_text(dtype: np.dtype[Any]) -> str:
        """Returns what `repr` shows of a dtype: NumPy's name."""
        return str(dtype)

    def check(self, value: Any) -> None:
        """Raises unless `value` is an array of this shape and dtype."""
        value = as_array(value)
        if not is_array(value):
            value = np.asarray(value)
        found, wanted = (
            jax.dtypes.canonicalize_dtype(d) for d in (value.dtype, self.dtype)
        )
        if found != wanted or not self.allows(value.shape):
            raise SignatureMismatch(
                "An argument must match its entry in `input_signature`. Received: "
                f"{value.dtype}{list(value.shape)} for {self}. Convert or reshape the "
                "argument, or use None for sizes that vary."
            )

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Returns whether an array of this shape matches."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            want in (None, size) for size, want in zip(shape, self.shape, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class PerReplicaSpec:
    """Descriptions of the parts of a `PerReplica`, one for each local replica."""

    parts: tuple[TensorSpec, ...]

    def __repr__(self) -> str:
        return f"PerReplicaSpec{self.parts!r}"


class TensorShape(tuple[int | None, ...]):
    """A tuple of sizes; None is an unknown size. `TensorShape(None)` has no known rank.

    >>> shape = TensorShape([2, 3])
    >>> shape.as_list(), shape.rank, shape.num_elements(), shape == (2, 3)
    ([2, 3], 2, 6, True)
    """

    __slots__ = ()

    def __new__(cls, dims: Any = ()) -> TensorShape:
        if dims is None or isinstance(dims, _UnknownShape):
            return super().__new__(_UnknownShape)
        dims = (dims,) if isinstance(dims, int) else dims
        return super().__new__(cls, [None if d is None else int(d) for d in dims])

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

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

    def __ne__(self, other: object) -> bool:
        return not self == other

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
