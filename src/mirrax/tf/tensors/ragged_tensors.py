"""Rows of different lengths: a padded array and the lengths.

Both are ordinary arrays, so ragged tensors go through datasets, `run` and `function`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.errors import InvalidArgumentError
from mirrax.tf.tensors.host_tensors import flat_array, host
from mirrax.tf.tensors.sparse_tensors import SparseTensor
from mirrax.tf.tensors.tensor_shape import TensorShape


@jax.tree_util.register_pytree_node_class
class RaggedTensor:
    """`tf.RaggedTensor` with one ragged dimension, the second.

    Args:
        padded: The rows, padded at their ends.
        lengths: The length of each row.

    >>> rows = RaggedTensor.from_row_lengths([3, 1, 4], [2, 0, 1])
    >>> rows.to_list()
    [[3, 1], [], [4]]
    >>> rows.to_tensor().tolist()
    [[3, 1], [0, 0], [4, 0]]
    """

    ragged_rank = 1

    def __init__(self, padded: Any, lengths: Any) -> None:
        self.padded = padded
        self.lengths = lengths

    @classmethod
    def from_rows(cls, rows: Any, dtype: Any = None) -> RaggedTensor:
        """Returns a ragged tensor of a list of lists or arrays."""
        flat = [item for row in rows for item in row]
        if len({len(item) for item in flat if isinstance(item, list | tuple)}) > 1:
            raise several_ragged_dimensions("lists of different lengths in the rows")
        return cls.from_row_lengths(flat, [len(row) for row in rows], dtype)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, dtype: Any = None, **_: Any
    ) -> RaggedTensor:
        if is_ragged_tensor(values):
            raise several_ragged_dimensions("rows that are ragged tensors")
        flat = flat_array(values, dtype)
        lengths = host(np.asarray(row_lengths, np.int64))
        shape = (len(lengths), int(max(lengths, default=0)), *flat.shape[1:])
        filler = b"" if flat.dtype == object else 0
        padded = np.full(shape, filler, flat.dtype)
        padded[_mask(lengths, shape[1])] = flat
        return cls(host(padded), lengths)

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, **_: Any) -> RaggedTensor:
        return cls.from_row_lengths(values, np.diff(np.asarray(row_splits)))

    @classmethod
    def from_row_starts(cls, values: Any, row_starts: Any, **_: Any) -> RaggedTensor:
        return cls.from_row_splits(values, [*np.asarray(row_starts), len(values)])

    @classmethod
    def from_uniform_row_length(
        cls, values: Any, uniform_row_length: Any, nrows: Any = None, **_: Any
    ) -> RaggedTensor:
        size = int(uniform_row_length)
        count = len(values) // size if nrows is None else int(nrows)
        return cls.from_row_lengths(values, np.full(count, size))

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: Any = None, **_: Any
    ) -> RaggedTensor:
        counts = np.bincount(np.asarray(value_rowids), minlength=int(nrows or 0))
        return cls.from_row_lengths(values, counts)

    @classmethod
    def from_tensor(
        cls, tensor: Any, lengths: Any = None, padding: Any = None, **_: Any
    ) -> RaggedTensor:
        array = flat_array(tensor)
        if padding is not None:
            kept = array != (padding.encode() if isinstance(padding, str) else padding)
            steps = np.arange(1, array.shape[1] + 1)
            lengths = np.max(kept * steps, axis=1, initial=0)
        if lengths is None:
            lengths = np.full(len(array), array.shape[1])
        return cls(host(array), host(np.asarray(lengths, np.int64)))

    @property
    def dtype(self) -> Any:
        return self.padded.dtype

    @property
    def shape(self) -> TensorShape:
        return TensorShape([*self.lengths.shape, None, *self.padded.shape[2:]])

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def mask(self) -> Any:
        """Where the padded array has values."""
        return _mask(self.lengths, self.padded.shape[1])

    @property
    def is_spec(self) -> bool:
        """Whether it describes ragged tensors, with specs in place of arrays."""
        return isinstance(self.padded, mirrax.TensorSpec)

    @property
    def values(self) -> Any:
        """The values of all rows, one after another."""
        return host(self.padded[np.asarray(self.mask)])

    flat_values = values

    @property
    def row_splits(self) -> Any:
        """Where the rows begin in `values`, and where the last one ends."""
        return host(np.concatenate([[0], np.cumsum(self.lengths)]))

    def row_lengths(self, axis: int = 1, name: Any = None) -> Any:
        return self.lengths

    def value_rowids(self, name: Any = None) -> Any:
        """Returns the number of the row of each value."""
        return host(np.repeat(np.arange(len(self.lengths)), self.lengths))

    def nrows(self, out_type: Any = np.int64, name: Any = None) -> Any:
        return host(np.asarray(self.padded.shape[0], out_type))

    def bounding_shape(self, axis: Any = None, *_: Any, **__: Any) -> Any:
        """Returns the shape of `to_tensor`."""
        shape = host(np.asarray(self.to_tensor().shape, np.int64))
        return shape if axis is None else shape[axis]

    def to_tensor(
        self, default_value: Any = None, name: Any = None, shape: Any = None
    ) -> Any:
        """Returns the padded rows.

        They are as long as the longest one, or as `shape` says. In compiled code, whose
        shapes are fixed, they are as long as the longest one of the dataset.
        """
        padded, lengths = self.padded, self.lengths
        is_traced = isinstance(lengths, jax.core.Tracer)
        width = None if shape is None else tuple(shape)[1]
        if width is None:
            width = padded.shape[1] if is_traced else int(np.max(lengths, initial=0))
        library: Any = jnp if is_traced else np
        more = [(0, 0), (0, max(0, width - padded.shape[1]))]
        cut = library.pad(padded, more + [(0, 0)] * (padded.ndim - 2))[:, :width]
        if default_value is None:
            default_value = b"" if self.dtype == object else 0
        if isinstance(default_value, str):
            default_value = default_value.encode()
        mask = _mask(lengths, width).reshape(*cut.shape[:2], *(1,) * (cut.ndim - 2))
        filler = library.asarray(default_value, cut.dtype)
        return host(library.where(mask, cut, filler))

    def to_sparse(self, name: Any = None) -> SparseTensor:
        """Returns the values as a sparse tensor."""
        dense = self.to_tensor()
        return SparseTensor.of_dense(dense, host(_mask(self.lengths, dense.shape[1])))

    @classmethod
    def from_sparse(cls, st_input: SparseTensor, *_: Any, **__: Any) -> RaggedTensor:
        """Returns the rows of a sparse tensor, whose values come first in each row."""
        dense, mask = (np.asarray(x) for x in jax.tree.leaves(st_input))
        lengths = mask.sum(axis=1)
        if not np.array_equal(mask, _mask(lengths, mask.shape[1])):
            raise InvalidArgumentError(
                "SparseTensor is not right-ragged: in each row, the values must come "
                f"first. Received: {st_input!r}."
            )
        return cls(host(dense), host(lengths))

    def to_list(self) -> list[Any]:
        return [row.tolist() for row in self]

    def numpy(self) -> Any:
        """Returns an array of the rows, which are arrays."""
        rows = np.empty(self.padded.shape[0], object)
        rows[:] = [np.asarray(row) for row in self]
        return rows

    def map(self, function: Callable[..., Any], *others: Any) -> RaggedTensor:
        """Returns a function of the values, and of those of other ragged tensors."""
        given = [x.padded if isinstance(x, RaggedTensor) else x for x in others]
        return RaggedTensor(host(function(self.padded, *given)), self.lengths)

    def with_values(self, new_values: Any) -> RaggedTensor:
        """Returns other values in rows of the same lengths."""
        return RaggedTensor.from_row_lengths(new_values, self.lengths)

    with_flat_values = with_values

    def row(self, index: int) -> Any:
        return host(self.padded[index][: int(self.lengths[index])])

    def __iter__(self) -> Iterator[Any]:
        return map(self.row, range(self.padded.shape[0]))

    def __getitem__(self, key: Any) -> Any:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if not isinstance(first, slice):
            return self.row(first)[tuple(rest)] if rest else self.row(first)
        rows = [row[tuple(rest)] if rest else row for row in list(self)[first]]
        if any(np.ndim(row) == 0 for row in rows):
            return host(np.stack(rows))
        flat = np.concatenate([self.padded[:0, 0], *rows])
        return RaggedTensor.from_row_lengths(flat, [len(row) for row in rows])

    def __repr__(self) -> str:
        if self.is_spec:
            rank = len(self.lengths.shape)
            text = self.padded.dtype_text(self.dtype)
            kind = f"TensorShape({[*self.shape]}), {text}, {rank}"
            return f"RaggedTensorSpec({kind}, tf.int64)"
        # A traced one has no values.
        if not isinstance(self.lengths, np.ndarray):
            return f"RaggedTensor({self.padded}, {self.lengths})"
        return f"<tf.RaggedTensor {self.to_list()}>"

    def __jax_array__(self) -> Any:
        raise TypeError(
            "This operation takes tensors whose rows have the same length. Received: a "
            "RaggedTensor. Use `ragged.to_tensor()`, and `tf.sequence_mask("
            "ragged.row_lengths())` as the mask."
        )

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.padded, self.lengths), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> RaggedTensor:
        return cls(*leaves)


def _operator(function: Callable[..., Any]) -> Callable[..., RaggedTensor]:
    return lambda self, *others: self.map(function, *others)


def _reflected(function: Callable[..., Any]) -> Callable[..., RaggedTensor]:
    return _operator(lambda x, y: function(y, x))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(RaggedTensor, f"__{_name}__", _operator(getattr(operator, _name)))
    setattr(RaggedTensor, f"__r{_name}__", _reflected(getattr(operator, _name)))


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: RaggedTensor, other: Any) -> Any:
        if self.is_spec:
            return function(repr(self), repr(other))
        return self.map(function, other)

    return compare


for _name in ("eq", "ne"):
    setattr(RaggedTensor, f"__{_name}__", _comparison(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "and_", "or_", "neg", "invert"):
    _method = f"__{_name.rstrip('_')}__"
    setattr(RaggedTensor, _method, _operator(getattr(operator, _name)))


def join_rows(tensors: Any, axis: int) -> RaggedTensor:
    """Joins tensors, of which some are ragged: their rows, or all into one list."""
    rows = [[np.asarray(row) for row in tensor] for tensor in tensors]
    axis %= 1 + np.ndim(rows[0][0])
    if axis == 0:
        return RaggedTensor.from_rows([row for one in rows for row in one])
    return RaggedTensor.from_rows(
        [np.concatenate(parts, axis - 1) for parts in zip(*rows, strict=True)]
    )


def element(tree: Any) -> Any:
    """Returns an element of a dataset as tensors; a row of a ragged tensor as one."""
    return jax.tree.map(_tensor, tree, is_leaf=is_ragged_tensor)


class _SpecType(type):
    def __call__(
        cls,
        shape: Any = None,
        dtype: Any = np.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = np.int64,
        flat_values_spec: Any = None,
    ) -> RaggedTensor:
        sizes = [None, None] if shape is None else list(shape)
        if ragged_rank not in (None, 1) or len(sizes) < 2:
            raise several_ragged_dimensions(
                f"shape={sizes} and ragged_rank={ragged_rank}"
            )
        padded = mirrax.TensorSpec([sizes[0], None, *sizes[2:]], dtype)
        return RaggedTensor(padded, mirrax.TensorSpec(sizes[:1], np.int64))

    def __instancecheck__(cls, value: object) -> bool:
        return is_ragged_tensor(value) and value.is_spec


class RaggedTensorSpec(metaclass=_SpecType):
    """`tf.RaggedTensorSpec`: a `RaggedTensor` with specs in place of its arrays."""


def several_ragged_dimensions(found: str) -> NotImplementedError:
    return NotImplementedError(
        "A RaggedTensor has one ragged dimension, the second. Received: "
        f"{found}. Pad the inner dimensions."
    )


def is_ragged_tensor(value: Any) -> TypeGuard[RaggedTensor]:
    return isinstance(value, RaggedTensor)


def _tensor(value: Any) -> Any:
    if not is_ragged_tensor(value):
        return host(value)
    padded, lengths = host(value.padded), host(value.lengths)
    if lengths.ndim > 1:
        raise several_ragged_dimensions("a batch of ragged tensors")
    return RaggedTensor(padded, lengths) if lengths.ndim else padded[: int(lengths)]


def _mask(lengths: Any, width: int) -> Any:
    return np.arange(width) < lengths[:, None]
