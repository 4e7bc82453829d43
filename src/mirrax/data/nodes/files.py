"""The records of files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from mirrax.data.file_formats import Reader
from mirrax.data.plan.columns import STRING, Columns, as_objects
from mirrax.data.plan.node import UNKNOWN, Epoch, Node, State, Stream
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
    """The records of files, one file after another."""

    spec = TensorSpec((), STRING)
    cardinality = UNKNOWN

    make_reader: MakeReader = dataclasses.field(repr=False)
    kind: str

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _FilesStream(self.make_reader(self.files), self.structure)


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
