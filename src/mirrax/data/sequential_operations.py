"""Operations that process elements in sequence: scan, windows, buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from mirrax.data.node import Node
from mirrax.data.nodes.counting import AssertCardinality
from mirrax.data.nodes.grouping import GroupByWindow
from mirrax.data.nodes.sequential import Scan, TakeWhile, Unique
from mirrax.data.operations import Operations, plan_of
from mirrax.data.seeds import random_seed
from mirrax.errors import InvalidArgumentError
from mirrax.trees import Tree

D = TypeVar("D", bound="Operations[Any]")


class SequentialOperations(Operations[D]):
    """More operations of a dataset of type `D`."""

    def take_while(self, predicate: Callable[..., Any]) -> D:
        """Returns the elements before the first for which `predicate` is not true."""
        return self._append(TakeWhile, predicate)

    def scan(
        self, initial_state: Tree, scan_func: Callable[[Any, Any], tuple[Any, Any]]
    ) -> D:
        """Returns the results of a function that keeps a state.

        Args:
            initial_state: The state before the first element.
            scan_func: Returns the next state and a result of a state and an element.
        """
        state = jax.tree.map(np.asarray, initial_state)
        return self._append(Scan, state, scan_func)

    def unique(self) -> D:
        """Returns the elements that differ from all before them."""
        return self._append(Unique)

    def assert_cardinality(self, expected_cardinality: int) -> D:
        """Returns this dataset with a known number of elements, which is checked."""
        return self._append(AssertCardinality, int(expected_cardinality))

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
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Tree = None,
        padding_values: Tree = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
    ) -> D:
        """Returns padded batches of elements of similar length.

        Args:
            element_length_func: Returns the length of an element.
            bucket_boundaries: The upper bounds of the buckets, exclusive.
            bucket_batch_sizes: The batch size of each bucket, one more than there are
                boundaries.
            padded_shapes: The shapes to pad to, as for `padded_batch`.
            padding_values: The values to pad with.
            pad_to_bucket_boundary: Whether unknown dimensions are padded to the
                bucket's boundary minus one.
            no_padding: Whether elements of a bucket have the same shape already.
            drop_remainder: Whether smaller batches are dropped.
        """
        boundaries, sizes = list(bucket_boundaries), list(bucket_batch_sizes)
        if len(sizes) != len(boundaries) + 1 or boundaries != sorted(set(boundaries)):
            raise ValueError(
                "`bucket_boundaries` must grow, and `bucket_batch_sizes` must have one "
                f"more entry. Received: {boundaries} and {sizes}."
            )

        def bucket_of(*element: Any) -> int:
            length = np.asarray(element_length_func(*element))
            return int(np.searchsorted(boundaries, length, side="right"))

        def batch(key: Any, group: Any) -> Any:
            size = sizes[int(key)]
            if no_padding:
                return group.batch(size, drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                shapes = _up_to(_boundary(boundaries, key), group.plan.spec, shapes)
            return group.padded_batch(size, shapes, padding_values, drop_remainder)

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


def _up_to(size: int, spec: Tree, shapes: Tree) -> Tree:
    """Returns shapes with `size` for unknown dimensions."""
    nesting: Any
    leaves, nesting = jax.tree.flatten(spec)
    given: list[Any] = [leaf.shape for leaf in leaves]
    if shapes is not None:
        given = nesting.flatten_up_to(shapes)
    filled = [tuple(size if n in (None, -1) else n for n in shape) for shape in given]
    return jax.tree.unflatten(nesting, filled)
