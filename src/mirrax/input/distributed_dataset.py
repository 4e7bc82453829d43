"""`DistributedDataset` and its iterator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.data.iterator import GetNext, fitting
from mirrax.html_tables import html_table
from mirrax.input import dataset_position
from mirrax.input.prefetched_steps import StepReader
from mirrax.input.synchronized_steps import Synchronize
from mirrax.trees import NotTraceableLeaf, Tree


class DistributedDataset(NotTraceableLeaf):
    """A dataset of global batches, each divided among the replicas.

    Iterating gives a `PerReplica` for each array; with one replica, the array itself.
    The next elements are prefetched while a step runs.

    Args:
        open_steps: Opens the elements of this worker.
        describe: Returns the spec of an element.
        depth: How many elements are prefetched.
        synchronize: Keeps the workers in step, if they need that.
        count: Returns the number of elements of the dataset that is distributed.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    >>> batches = mirrax.data.Dataset.range(4).batch(4)
    >>> for batch in strategy.experimental_distribute_dataset(batches):
    ...     print([part.tolist() for part in batch.values])
    [[0, 1], [2, 3]]
    """

    def __init__(
        self,
        open_steps: Callable[[], StepReader],
        describe: Callable[[], Tree],
        depth: int,
        synchronize: Synchronize | None,
        count: Callable[[], int],
    ) -> None:
        self._open_steps = open_steps
        self._count = count
        self._describe = describe
        self._depth = depth
        self._synchronize = synchronize

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element; usable as an `input_signature`."""
        return self._describe()

    @property
    def cardinality(self) -> int:
        """The number of batches of the dataset; -1 if infinite, -2 if unknown."""
        return self._count()

    def __repr__(self) -> str:
        return f"<mirrax.DistributedDataset element_spec={self.element_spec}>"

    def _repr_html_(self) -> str:
        rows = [
            ("element of all replicas", self.element_spec),
            ("prefetched elements", self._depth),
        ]
        return html_table("DistributedDataset", ("", ""), rows)

    def __iter__(self) -> DistributedIterator:
        if stack.overlay() is not None:
            # Only Python can iterate a dataset; compiled steps run inside.
            raise NotTraceable
        steps = self._open_steps()
        return DistributedIterator(steps, self._describe, self._synchronize)

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """Returns `reduce_func(state, element)` of all elements, one after another."""
        return functools.reduce(reduce_func, self, initial_state)


class DistributedIterator(NotTraceableLeaf, GetNext):
    """The elements of a distributed dataset, one step after another.

    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> batches = mirrax.data.Dataset.range(4).batch(2)
    >>> iterator = iter(strategy.experimental_distribute_dataset(batches))
    >>> next(iterator).tolist()
    [0, 1]
    """

    def __init__(
        self,
        steps: StepReader,
        describe: Callable[[], Tree],
        synchronize: Synchronize | None,
    ) -> None:
        self._steps = steps
        self._describe = describe
        self._synchronize = synchronize

    @property
    def element_spec(self) -> Tree:
        """Shapes and dtypes of an element; usable as an `input_signature`."""
        return self._describe()

    def __next__(self) -> Tree:
        if isinstance(stack.frame(), stack.Replica):
            raise ValueError(
                "An element of a distributed dataset is a batch for all replicas. "
                "Received: `next` of its iterator inside a function called by "
                "`strategy.run`, where each replica would take a whole batch. Take it "
                "outside and pass it on: strategy.run(fn, args=(next(iterator),)). "
                "Both can stand in one `@mirrax.function`."
            )
        if stack.overlay() is not None:
            raise NotTraceable
        step = self._steps.step()
        if self._synchronize is not None:
            step = self._synchronize(step)
        if step is None:
            raise StopIteration
        return step.element

    def save_state(self) -> Any:
        """Returns this worker's position, as a JSON value.

        With FILE sharding, restoring on another number of workers needs the positions
        of all workers.
        """
        return self._steps.position().dump()

    def restore_state(self, state: Any) -> None:
        """Restores a position that `save_state` returned.

        Args:
            state: The position of one worker, or a list of those of all workers.
        """
        with fitting(state):
            self._steps.seek(dataset_position.load(state))
