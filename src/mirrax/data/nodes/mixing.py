"""`choose_from_datasets` and `sample_from_datasets`."""

from __future__ import annotations

import abc
import bisect
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.nodes.combining import common_spec
from mirrax.data.nodes.numbers import RandomStream
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import (
    INFINITE,
    UNKNOWN,
    Epoch,
    Node,
    State,
    Stream,
    as_count,
    require_same_structure,
)
from mirrax.data.plan.seeds import Seeded, random_seed
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Choosing(Node):
    """Elements of several datasets, each time of one that is chosen.

    Args:
        stops_on_empty: Whether it ends as soon as one that has ended is chosen; if not,
            such a choice is left out.
    """

    sources: tuple[Node, ...]
    stops_on_empty: bool

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _ChoosingStream(self, self._open_choices(epoch), epoch)

    @abc.abstractmethod
    def _open_choices(self, epoch: Epoch) -> Stream:
        """Returns the numbers that select datasets."""

    @abc.abstractmethod
    def source_of(self, choice: int) -> int:
        """Returns the index of the dataset that a number selects."""

    @property
    @override
    def spec(self) -> Any:
        return common_spec([node.spec for node in self.sources])


@dataclasses.dataclass(frozen=True, eq=False)
class Choose(Choosing):
    """Elements of the datasets whose indices another dataset gives."""

    choices: Node

    @override
    def _open_choices(self, epoch: Epoch) -> Stream:
        return self.choices.open(epoch)

    @override
    def source_of(self, choice: int) -> int:
        if not 0 <= choice < len(self.sources):
            raise InvalidArgumentError(
                "A choice must be the index of one of the datasets. Received: "
                f"{choice}, for {len(self.sources)} datasets."
            )
        return choice

    @property
    @override
    def cardinality(self) -> int:
        sizes = {node.cardinality for node in (*self.sources, self.choices)}
        return INFINITE if sizes == {INFINITE} else UNKNOWN


@dataclasses.dataclass(frozen=True, eq=False)
class Sample(Choosing, Seeded):
    """Elements of datasets that are drawn at random, each with its weight."""

    weights: tuple[float, ...]
    seed: int
    rerandomize: bool
    is_unseeded: bool = dataclasses.field(default=False, repr=False)

    @override
    def _open_choices(self, epoch: Epoch) -> Stream:
        return RandomStream((self.seed, *epoch) if self.rerandomize else (self.seed,))

    @override
    def source_of(self, choice: int) -> int:
        place = choice / 2**32 * self._bounds[-1]
        return bisect.bisect_right(self._bounds, place)

    @functools.cached_property
    def _bounds(self) -> list[float]:
        return np.cumsum(self.weights).tolist()  # type: ignore[no-any-return]

    @property
    @override
    def cardinality(self) -> int:
        sizes = [node.cardinality for node in self.sources]
        if len(sizes) == 1:
            return sizes[0]
        is_endless = all if self.stops_on_empty else any
        return INFINITE if is_endless(size == INFINITE for size in sizes) else UNKNOWN


def chosen(sources: Sequence[Node], choices: Node, stops_on_empty: bool) -> Node:
    """Returns elements of the sources whose indices `choices` gives."""
    _require_some(sources)
    spec = choices.spec
    is_index = isinstance(spec, TensorSpec) and spec.dtype.kind in "iu"
    if not is_index or spec.shape != ():
        raise TypeError(
            "Elements of `choice_dataset` must be integers. Received: elements of "
            f"{spec}. Use `map` to make indices of `datasets` of them."
        )
    return Choose(tuple(sources), stops_on_empty, choices)


def sampled(
    sources: Sequence[Node],
    weights: Sequence[float] | None,
    seed: int | None,
    stops_on_empty: bool,
    rerandomize: bool | None,
) -> Node:
    """Returns elements of sources that are drawn at random."""
    _require_some(sources)
    given = np.ones(len(sources)) if weights is None else np.asarray(weights)
    if given.shape != (len(sources),) or given.min() < 0 or not given.sum() > 0:
        raise ValueError(
            "`weights` must have a number for each dataset, none below 0 and at least "
            f"one above. Received: weights={weights} for {len(sources)} dataset(s)."
        )
    drawn = tuple(node for node, weight in zip(sources, given) if weight)
    numbers = tuple(float(weight) for weight in given if weight)
    number = random_seed() if seed is None else int(seed)
    rerandomize = seed is None if rerandomize is None else rerandomize
    return Sample(drawn, stops_on_empty, numbers, number, rerandomize, seed is None)


def _require_some(sources: Sequence[Node]) -> None:
    if not sources:
        raise ValueError("`datasets` must not be empty. Received: none.")


class _ChoosingStream(Stream):
    def __init__(self, node: Choosing, choices: Stream, epoch: Epoch) -> None:
        self._node = node
        self._choices = choices
        self._sources = [source.open(epoch) for source in node.sources]
        self._ended: set[int] = set()
        self._has_stopped = False

    @override
    def take(self, limit: int) -> Columns | None:
        while not self._has_stopped and len(self._ended) < len(self._sources):
            choice = self._choices.take(1)
            if choice is None:
                break
            which = self._node.source_of(int(choice[0][0]))
            columns = None if which in self._ended else self._sources[which].take(1)
            if columns is not None:
                self.structure = require_same_structure(
                    self.structure,
                    self._sources[which].structure,
                    "Datasets to choose from",
                )
                return columns
            self._ended.add(which)
            self._has_stopped = self._node.stops_on_empty
        return None

    @override
    def state(self) -> State:
        sources = [source.state() for source in self._sources]
        ended = sorted(self._ended)
        return [self._has_stopped, ended, self._choices.state(), sources]

    @override
    def restore(self, state: State) -> None:
        has_stopped, ended, choices, sources = state
        self._has_stopped = bool(has_stopped)
        self._ended = {as_count(index, len(self._sources) - 1) for index in ended}
        self._choices.restore(choices)
        for source, inner in zip(self._sources, sources, strict=True):
            source.restore(inner)
