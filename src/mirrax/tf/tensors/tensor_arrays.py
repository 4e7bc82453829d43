"""`tf.TensorArray`: a list of tensors, also for traced indices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.dtypes import canonical
from mirrax.tf.errors import InvalidArgumentError, NotCompilable, OutOfRangeError
from mirrax.tf.tensors.tensor import sizes, tensor
from mirrax.tf.tensors.tensor_shape import TensorShape


class TensorArray:
    """A list of tensors of one dtype, which loops can fill.

    With concrete indices it is a list. The first write to a traced index turns it into
    one array, whose size is fixed.

    Args:
        dtype: The dtype of the elements.
        size: The number of elements.
        dynamic_size: Whether writes past the end make it grow.
        element_shape: The shape of the elements, if known before the first write.

    >>> array = TensorArray(np.float32, size=2)
    >>> array = array.write(0, 1.0).write(1, 2.0)
    >>> array.stack().tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: Any = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: Any = None,
    ) -> None:
        self._dtype = canonical(dtype)
        self._grows = bool(dynamic_size)
        self._declared = None if element_shape is None else TensorShape(element_shape)
        self._items: list[Any] = [None] * (0 if size is None else int(size))
        self._whole: Any = None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        return self._grows

    @property
    def element_shape(self) -> TensorShape | None:
        """The shape of an element; None if unknown."""
        if self._whole is not None:
            return TensorShape(self._whole.shape[1:])
        found = next((item.shape for item in self._items if item is not None), None)
        return self._declared if found is None else TensorShape(found)

    @property
    def is_whole(self) -> bool:
        """Whether it is one array, which loops can carry."""
        return self._whole is not None

    def size(self, name: Any = None) -> Any:
        return jnp.asarray(len(self), jnp.int32)

    def __len__(self) -> int:
        return len(self._items) if self._whole is None else len(self._whole)

    def identity(self) -> TensorArray:
        return self

    def close(self, name: Any = None) -> None:
        self._items, self._whole = [], None

    def write(self, index: Any, value: Any, name: Any = None) -> TensorArray:
        """Writes a tensor at an index; returns the array."""
        item = self._fitting(value)
        if isinstance(index, jax.core.Tracer):
            # A copy: the other branch of a condition must not see this one's tracers.
            written = copy.copy(self).as_whole(item.shape)
            written._whole = written._whole.at[index].set(item)
            return written
        if self._whole is not None:
            self._whole = self._whole.at[index].set(item)
            return self
        place = int(index)
        if place < 0 or (place >= len(self._items) and not self._grows):
            raise OutOfRangeError(
                f"Tried to write to index {place} but array is not resizeable and "
                f"size is: {len(self._items)}. Use `dynamic_size=True`."
            )
        self._items += [None] * (place + 1 - len(self._items))
        self._items[place] = item
        return self

    def read(self, index: Any, name: Any = None) -> Any:
        if isinstance(index, jax.core.Tracer) or self._whole is not None:
            return self.stack()[index]
        place = int(index)
        if not 0 <= place < len(self._items):
            raise OutOfRangeError(
                f"Tried to read from index {place} but array size is: "
                f"{len(self._items)}."
            )
        return self._filled(self._items[place])

    def stack(self, name: Any = None) -> Any:
        """Returns all elements as one tensor; unwritten ones are zeros."""
        if self._whole is not None:
            return self._whole
        if not self._items:
            return jnp.zeros((0, *self._known_shape()), self._dtype)
        return jnp.stack([self._filled(item) for item in self._items])

    def gather(self, indices: Any, name: Any = None) -> Any:
        return self.stack()[tensor(indices)]

    def concat(self, name: Any = None) -> Any:
        if self._whole is not None:
            return self._whole.reshape(-1, *self._whole.shape[2:])
        return jnp.concatenate([self._filled(item) for item in self._items])

    def unstack(self, value: Any, name: Any = None) -> TensorArray:
        """Sets the elements to the rows of a tensor."""
        rows = list(tensor(value, self._dtype))
        if len(rows) > len(self) and not self._grows:
            raise OutOfRangeError(
                f"{len(rows)} rows do not fit into an array of size {len(self)}. Use "
                "`dynamic_size=True`."
            )
        self._items, self._whole = rows, None
        return self

    def scatter(self, indices: Any, value: Any, name: Any = None) -> TensorArray:
        for index, row in zip(_each(indices), tensor(value), strict=True):
            self.write(index, row)
        return self

    def split(self, value: Any, lengths: Any, name: Any = None) -> TensorArray:
        """Sets the elements to parts of a tensor with these lengths."""
        stops = np.cumsum(sizes(lengths))[:-1].tolist()
        self._items = list(jnp.split(tensor(value, self._dtype), stops))
        self._whole = None
        return self

    def as_whole(self, shape: Any = None) -> TensorArray:
        """Stacks the elements into one array; `shape` is used if none was written."""
        if self._whole is None:
            if self.element_shape is None and shape is not None:
                self._declared = TensorShape(shape)
            if self._grows or not self._items:
                raise NotCompilable(
                    "A TensorArray that a compiled loop writes to has a fixed size. "
                    f"Received: size={len(self)}, dynamic_size={self._grows}. Use "
                    "`tf.TensorArray(dtype, size=n)`."
                )
            self._whole, self._items = self.stack(), []
        return self

    def _fitting(self, value: Any) -> Any:
        item = tensor(value)
        if item.dtype != self._dtype and not isinstance(value, int | float):
            raise InvalidArgumentError(
                f"TensorArray dtype is {self._dtype} but Op is trying to write dtype "
                f"{item.dtype}. Use `tf.cast`."
            )
        known = self.element_shape
        if known is not None and not known.is_compatible_with(item.shape):
            raise ValueError(
                f"Incompatible shape for value ({item.shape}), expected ({known})."
            )
        return item.astype(self._dtype)

    def _filled(self, item: Any) -> Any:
        return jnp.zeros(self._known_shape(), self._dtype) if item is None else item

    def _known_shape(self) -> tuple[int, ...]:
        shape = self.element_shape
        if shape is None or None in shape:
            raise ValueError(
                "The shape of unwritten elements must be known. Received: no "
                "`element_shape`, and nothing written. Pass `element_shape=`, or write "
                "an element first."
            )
        return sizes(shape)


def _each(indices: Any) -> Iterator[Any]:
    is_traced = isinstance(indices, jax.core.Tracer)
    return iter(indices) if is_traced else iter(np.asarray(indices).tolist())


def _flatten(array: TensorArray) -> Any:
    rest = (array._dtype, array._grows, array._declared)
    return (list(array._items), array._whole), rest


def _unflatten(rest: Any, children: Any) -> TensorArray:
    made = object.__new__(TensorArray)
    made._dtype, made._grows, made._declared = rest
    made._items, made._whole = children
    return made


jax.tree_util.register_pytree_node(TensorArray, _flatten, _unflatten)
