"""Operations that group elements: by a key, or by length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from mirrax.data.nodes.batching import PaddedBatch, few_length
from mirrax.data.nodes.grouping import GroupByWindow
from mirrax.data.operations import Operations, plan_of
from mirrax.data.plan.node import Node
from mirrax.data.plan.seeds import random_seed
from mirrax.errors import InvalidArgumentError
from mirrax.trees import Tree

D = TypeVar("D", bound="Operations[Any]")

# Lengths up to 16, 32, 64, ...: few shapes, of which none is half empty.
_DEFAULT_BOUNDARIES = tuple(2**exponent + 1 for exponent in range(4, 25))


class GroupingOperations(Operations[D]):
    """The operations of a dataset of type `D`, with those that group elements."""

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, D], D],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
    ) -> D:
        """Returns `reduce_func` of groups of elements with the same key.

        Args:
            key_func: Returns an element's key, an integer.
            reduce_func: Returns a dataset, given a key and the dataset of a group.
            window_size: The size of a group; the last may be smaller.
            window_size_func: Returns the size, given a key.
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError(
                "`group_by_window` needs either `window_size` or `window_size_func`. "
                f"Received: {window_size!r} and {window_size_func!r}."
            )
        size_of = window_size_func or (lambda key: window_size)

        def reduce(key: Any, group: Node) -> Node:
            made = reduce_func(key, self._with_plan(group))
            return plan_of(made, "A function given to `group_by_window`")

        return self._append(GroupByWindow, key_func, reduce, size_of, random_seed())

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int] | None = None,
        bucket_batch_sizes: Sequence[int] | int = 32,
        padded_shapes: Tree = None,
        padding_values: Tree = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
    ) -> D:
        """Returns padded batches of elements of similar length.

        Args:
            element_length_func: Returns the length of an element.
            bucket_boundaries: The upper bounds of the buckets, exclusive. By default,
                buckets are for lengths up to 16, 32, 64 and so on, and unknown
                sizes are padded to these.
            bucket_batch_sizes: The batch size of each bucket, one more than there are
                boundaries; or one size for all.
            padded_shapes: The shapes to pad to, as for `padded_batch`.
            padding_values: The values to pad with.
            pad_to_bucket_boundary: Whether unknown dimensions are padded to the
                bucket's boundary minus one.
            no_padding: Whether elements of a bucket have the same shape already.
            drop_remainder: Whether smaller batches are dropped.
        """
        round_up: Callable[[int], int] = (
            few_length if bucket_boundaries is None else int
        )
        if bucket_boundaries is None:
            bucket_boundaries = _DEFAULT_BOUNDARIES
        boundaries, given = list(bucket_boundaries), np.asarray(bucket_batch_sizes)
        sizes = given.tolist() if given.ndim else [int(given)] * (len(boundaries) + 1)
        if len(sizes) != len(boundaries) + 1 or boundaries != sorted(set(boundaries)):
            raise ValueError(
                "`bucket_boundaries` must increase, and `bucket_batch_sizes` must have "
                f"one more entry. Received: {boundaries} and {sizes}."
            )

        def bucket_of(*element: Any) -> int:
            length = np.asarray(element_length_func(*element))
            return int(np.searchsorted(boundaries, length, side="right"))

        def batch(key: Any, group: Any) -> Any:
            size = sizes[int(key)]
            if no_padding:
                return group.batch(size, drop_remainder)
            arguments = (size, drop_remainder, padded_shapes, padding_values, round_up)
            if pad_to_bucket_boundary:
                boundary = _boundary(boundaries, key)
                arguments = (*arguments[:-1], lambda size: boundary)
            return group._append(PaddedBatch, *arguments)

        return self.group_by_window(
            bucket_of, batch, window_size_func=lambda key: sizes[int(key)]
        )


def _boundary(boundaries: Sequence[int], key: Any) -> int:
    if int(key) == len(boundaries):
        raise InvalidArgumentError(
            "With `pad_to_bucket_boundary`, elements must be shorter than the last of "
            f"`bucket_boundaries`. Received: a longer one than {boundaries} allow. Add "
            "a boundary."
        )
    return int(boundaries[int(key)]) - 1
