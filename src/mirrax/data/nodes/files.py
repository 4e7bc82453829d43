"""The records of files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from mirrax.data.columns import STRING, Columns, as_objects
from mirrax.data.node import UNKNOWN, Epoch, Node, State, Stream
from mirrax.data.readers import Reader
from mirrax.values.tensor_spec import TensorSpec

MakeReader = Callable[[tuple[str, ...]], Reader]
"""Opens files that are read one after another."""


@dataclasses.dataclass(frozen=True, eq=False)
class FileNode(Node):
    """A node that reads files, which can be sharded among workers."""

    is_expensive = True

    files: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Files(FileNode):
    """The records of files, one file after another.

    Args:
        files: Their paths.
        make_reader: Opens some of them.
        kind: What kind of files they are.
    """

    cardinality = UNKNOWN

    make_reader: MakeReader = dataclasses.field(repr=False)
    kind: str

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _FilesStream(self.make_reader(self.files), self.structure)

    @property
    @override
    def spec(self) -> Any:
        return TensorSpec((), STRING)


class _FilesStream(Stream):
    chunk = 256

    def __init__(self, reader: Reader, structure: Any) -> None:
        self._reader = reader
        self.structure = structure

    @override
    def take(self, limit: int) -> Columns | None:
        records = self._reader.read(limit)
        return [as_objects(records)] if records else None

    @override
    def state(self) -> State:
        return list(self._reader.state())

    @override
    def restore(self, state: State) -> None:
        self._reader.restore(state)
