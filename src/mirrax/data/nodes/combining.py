"""Several datasets in one: `zip`, `concatenate`, chosen and sampled elements."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.nodes.repeating import ConsecutiveStream
from mirrax.data.nodes.sources import RandomNumbers
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.inference import common_spec
from mirrax.data.plan.node import INFINITE, UNKNOWN, Epoch, Node
from mirrax.data.plan.seeds import random_seed
from mirrax.data.plan.streams import State, Stream, as_count, require_same_structure
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Zip(Node):
    """Elements of several datasets side by side."""

    keeps_batch_size = True

    sources: tuple[Node, ...]
    nesting: Any = dataclasses.field(repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _ZipStream([node.open(epoch) for node in self.sources], self.nesting)

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.unflatten(self.nesting, [node.spec for node in self.sources])

    @property
    @override
    def cardinality(self) -> int:
        sizes = [node.cardinality for node in self.sources]
        finite = [size for size in sizes if size != INFINITE]
        if not finite:
            return INFINITE
        return UNKNOWN if UNKNOWN in finite else min(finite)


class _ZipStream(Stream):
    def __init__(self, sources: list[Stream], nesting: Any) -> None:
        self._sources = [BufferedStream(source) for source in sources]
        self._nesting = nesting
        self.chunk = min(source.chunk for source in sources)

    @override
    def take(self, limit: int) -> Columns | None:
        count = limit
        for source in self._sources:
            # Each reads only as many as those before it have.
            count = min(count, source.fill(count))
            if not count:
                return None
        taken = [source.take_buffered(count) for source in self._sources]
        inner = [
            jax.tree.unflatten(source.structure, [0] * len(columns))
            for source, columns in zip(self._sources, taken, strict=True)
        ]
        self.structure = jax.tree.structure(jax.tree.unflatten(self._nesting, inner))
        return list(itertools.chain(*taken))

    @override
    def state(self) -> State:
        return [source.state() for source in self._sources]

    @override
    def restore(self, state: State) -> None:
        for source, inner in zip(self._sources, state, strict=True):
            source.restore(inner)


@dataclasses.dataclass(frozen=True, eq=False)
class _Alternatives(Node):
    """A node each of whose elements comes from one of its sources."""

    sources: tuple[Node, ...]

    @property
    @override
    def spec(self) -> Any:
        return common_spec([node.spec for node in self.sources])


@dataclasses.dataclass(frozen=True, eq=False)
class Concatenate(_Alternatives):
    """One dataset after another."""

    keeps_batch_size = True

    @override
    def open(self, epoch: Epoch) -> Stream:
        return ConsecutiveStream(
            lambda i: self.sources[i].open(epoch), len(self.sources)
        )

    @property
    @override
    def cardinality(self) -> int:
        sizes = [node.cardinality for node in self.sources]
        if INFINITE in sizes:
            return INFINITE
        return UNKNOWN if UNKNOWN in sizes else sum(sizes)


@dataclasses.dataclass(frozen=True, eq=False)
class Choose(_Alternatives):
    """Elements of the datasets whose indices another dataset gives.

    Args:
        stops_on_empty: Whether it ends as soon as one that has ended is chosen; if not,
            such a choice is left out.
    """

    choices: Node
    stops_on_empty: bool

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _ChoosingStream(self, epoch)

    @property
    @override
    def cardinality(self) -> int:
        are_endless = [node.cardinality == INFINITE for node in self.sources]
        is_endless = all(are_endless) if self.stops_on_empty else any(are_endless)
        is_endless = is_endless and self.choices.cardinality == INFINITE
        return INFINITE if is_endless else UNKNOWN


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
    return Choose(tuple(sources), choices, stops_on_empty)


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
    if len(drawn) == 1:
        return drawn[0]
    number = random_seed() if seed is None else int(seed)
    rerandomize = seed is None if rerandomize is None else rerandomize
    positive = tuple(float(weight) for weight in given if weight)
    choices = RandomNumbers(number, rerandomize, seed is None, positive)
    return Choose(drawn, choices, stops_on_empty)


def _require_some(sources: Sequence[Node]) -> None:
    if not sources:
        raise ValueError("`datasets` must not be empty. Received: none.")


class _ChoosingStream(Stream):
    def __init__(self, node: Choose, epoch: Epoch) -> None:
        self._node = node
        self._choices = node.choices.open(epoch)
        self._sources = [source.open(epoch) for source in node.sources]
        self._ended: set[int] = set()
        self._has_stopped = False

    @override
    def take(self, limit: int) -> Columns | None:
        while not self._has_stopped and len(self._ended) < len(self._sources):
            choice = self._choices.take(1)
            if choice is None:
                break
            which = int(choice[0][0])
            if not 0 <= which < len(self._sources):
                raise InvalidArgumentError(
                    "A choice must be the index of one of the datasets. Received: "
                    f"{which}, for {len(self._sources)} datasets."
                )
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
