"""Datasets: sequences of elements, described once and read as often as one likes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import jax
import numpy as np

from mirrax.context import stack
from mirrax.context.guards import MustDrive
from mirrax.trees import Tree
from mirrax.values.driving import Driving


class Dataset(Driving):
    """A sequence of elements, each a structure of arrays.

    A dataset never changes: its methods return new ones. Each iteration starts anew.

    Args:
        read: Returns a fresh iterator over the elements.
    """

    def __init__(self, read: Callable[[], Iterator[Tree]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Tree]:
        if stack.overlay() is not None:
            # Only Python can work through a dataset; compiled steps run inside.
            raise MustDrive
        return self._read()

    @staticmethod
    def range(*args: int) -> Dataset:
        """Returns the integers that Python's `range` gives.

        >>> [int(x) for x in Dataset.range(3)]
        [0, 1, 2]
        """
        numbers = range(*args)
        return Dataset(lambda: (np.int64(number) for number in numbers))

    @staticmethod
    def from_tensor_slices(tensors: Tree) -> Dataset:
        """Returns the slices of arrays along their first dimension.

        >>> [x.tolist() for x in Dataset.from_tensor_slices([[1, 2], [3, 4]])]
        [[1, 2], [3, 4]]
        """
        arrays = jax.tree.map(np.asarray, tensors, is_leaf=_is_list)
        sizes = {array.shape[0] for array in jax.tree.leaves(arrays)}
        if len(sizes) != 1:
            raise ValueError(
                "All arrays must have the same number of rows. Received: "
                f"{sorted(sizes)}. Cut them to the same length."
            )
        (size,) = sizes
        return Dataset(
            lambda: (jax.tree.map(lambda a, i=i: a[i], arrays) for i in range(size))
        )

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Returns elements stacked in batches; the last may be smaller.

        >>> [x.tolist() for x in Dataset.range(3).batch(2)]
        [[0, 1], [2]]
        """
        if batch_size < 1:
            raise ValueError(
                f"A batch has at least one element. Received: batch_size={batch_size}."
            )

        def read() -> Iterator[Tree]:
            elements = iter(self)
            while chunk := list(itertools.islice(elements, batch_size)):
                if len(chunk) < batch_size and drop_remainder:
                    return
                yield jax.tree.map(lambda *rows: np.stack(rows), *chunk)

        return Dataset(read)


def _is_list(value: object) -> bool:
    return isinstance(value, list)
