"""Where elements come from: numbers, arrays, Python, files."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.columns import Columns, as_strings, from_rows
from mirrax.data.indices import Counted, Indices
from mirrax.data.plan import UNKNOWN, Epoch, Node, ReplayedStream, State, Stream
from mirrax.data.readers import Reader
from mirrax.values.specs import TensorSpec

STRING = np.dtype(object)


class IndexedNode(Node):
    """A node whose elements can be looked up by number, in any order."""

    @abc.abstractmethod
    def indices(self, epoch: Epoch) -> Indices | None:
        """Returns the numbers of the elements in order; None if there are none."""

    @abc.abstractmethod
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        """Returns the elements with these numbers."""


class IndexedStream(Stream):
    """Elements in the order of their numbers."""

    def __init__(self, node: IndexedNode, indices: Indices) -> None:
        self._look_up = node.look_up
        self._indices = indices
        self.structure = node.structure

    @override
    def take(self, limit: int) -> Columns | None:
        numbers = self._indices.take(limit)
        return self._look_up(numbers) if len(numbers) else None

    @override
    def state(self) -> State:
        return self._indices.state()

    @override
    def restore(self, state: State) -> None:
        self._indices.restore(state)


@dataclasses.dataclass(frozen=True, eq=False)
class Range(IndexedNode):
    """Integers."""

    numbers: range

    @override
    def indices(self, epoch: Epoch) -> Indices:
        return Counted(len(self.numbers))

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [self.numbers.start + numbers * self.numbers.step]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return IndexedStream(self, self.indices(epoch))

    @property
    @override
    def spec(self) -> Any:
        return TensorSpec((), np.int64)

    @property
    @override
    def cardinality(self) -> int:
        return len(self.numbers)


@dataclasses.dataclass(frozen=True, eq=False)
class Slices(IndexedNode):
    """The rows of arrays."""

    arrays: tuple[np.ndarray[Any, Any], ...] = dataclasses.field(repr=False)
    nesting: Any = dataclasses.field(repr=False)
    count: int

    @override
    def indices(self, epoch: Epoch) -> Indices:
        return Counted(self.count)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [np.take(array, numbers, axis=0) for array in self.arrays]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return IndexedStream(self, self.indices(epoch))

    @property
    @override
    def spec(self) -> Any:
        specs = [TensorSpec(array.shape[1:], array.dtype) for array in self.arrays]
        return jax.tree.unflatten(self.nesting, specs)

    @property
    @override
    def cardinality(self) -> int:
        return self.count


@dataclasses.dataclass(frozen=True, eq=False)
class Generated(Node):
    """What a Python function yields."""

    function: Callable[[], Iterable[Any]]
    signature: Any

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _GeneratedStream(self)

    @property
    @override
    def spec(self) -> Any:
        return self.signature

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN


class _GeneratedStream(ReplayedStream):
    def __init__(self, node: Generated) -> None:
        self._elements = iter(node.function())
        self._specs, self.structure = jax.tree.flatten(node.signature)

    @override
    def _take(self, limit: int) -> Columns | None:
        # One at a time: what is not asked for stays in the generator.
        for element in itertools.islice(self._elements, 1):
            return from_rows([self._checked(element)])
        return None

    def _checked(self, element: Any) -> list[Any]:
        try:
            leaves = self.structure.flatten_up_to(element)
            pairs = zip(leaves, self._specs, strict=True)
            return [_fitted(leaf, spec) for leaf, spec in pairs]
        except (TypeError, ValueError) as error:
            raise ValueError(
                "What a generator yields must fit its `output_signature`. Received: "
                f"element {self._taken}, {element!r}, for "
                f"{jax.tree.unflatten(self.structure, self._specs)}."
            ) from error


def _fitted(leaf: Any, spec: TensorSpec) -> Any:
    if spec.dtype == STRING:
        if not isinstance(leaf, bytes | str):
            raise TypeError
        return leaf.encode() if isinstance(leaf, str) else leaf
    array = np.asarray(leaf)
    if array.size and not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        raise TypeError
    if not spec.allows(array.shape):
        raise ValueError
    return array.astype(spec.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class Files(Node):
    """The records of files, one file after another.

    Args:
        files: Their paths.
        make_reader: Opens some of them.
        kind: What kind of files they are.
    """

    files: tuple[str, ...]
    make_reader: Callable[[tuple[str, ...]], Reader] = dataclasses.field(repr=False)
    kind: str

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _FilesStream(self.make_reader(self.files), self.structure)

    @property
    @override
    def spec(self) -> Any:
        return TensorSpec((), STRING)

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN


class _FilesStream(Stream):
    def __init__(self, reader: Reader, structure: Any) -> None:
        self._reader = reader
        self.structure = structure

    @override
    def take(self, limit: int) -> Columns | None:
        records = self._reader.read(limit)
        return [as_strings(records)] if records else None

    @override
    def state(self) -> State:
        return list(self._reader.state())

    @override
    def restore(self, state: State) -> None:
        self._reader.restore(state)
