"""Sharing a dataset between workers: a pure change of its plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.columns import Columns
from mirrax.data.nodes.caching import Cache, Memory
from mirrax.data.nodes.files import Files
from mirrax.data.nodes.interleaving import Interleave
from mirrax.data.nodes.ordering import Shard
from mirrax.data.options import AutoShardPolicy
from mirrax.data.plan import UNKNOWN, Epoch, Node, PassingStream, Stream
from mirrax.input.split import reads_files, split_batch


def auto_shard(
    plan: Node, policy: AutoShardPolicy, num_workers: int, index: int
) -> Node:
    """Returns the plan of the part of a dataset that worker `index` reads.

    By files, each worker reads some of them; by data, each takes its piece of every
    batch. AUTO goes by files if there are any.
    """
    if num_workers == 1 or policy in (AutoShardPolicy.OFF, AutoShardPolicy.HINT):
        return plan
    has_files = reads_files(plan)
    if policy is AutoShardPolicy.AUTO:
        policy = AutoShardPolicy.FILE if has_files else AutoShardPolicy.DATA
    if policy is AutoShardPolicy.DATA:
        return Piece(plan, num_workers, index)
    if not has_files:
        raise _no_files(plan)
    return _share_files(plan, num_workers, index)


def _share_files(plan: Node, num_workers: int, index: int) -> Node:
    if isinstance(plan, Files):
        _require_enough(len(plan.files), num_workers)
        return dataclasses.replace(plan, files=plan.files[index::num_workers])
    if isinstance(plan, Interleave) and not reads_files(plan.source):
        _require_enough(plan.source.cardinality, num_workers)
        return dataclasses.replace(plan, source=Shard(plan.source, num_workers, index))
    if not plan.inputs:
        raise _no_files(plan)
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(plan):
        value = getattr(plan, field.name)
        if isinstance(value, Node):
            changes[field.name] = _share_files(value, num_workers, index)
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            changes[field.name] = tuple(
                _share_files(node, num_workers, index) for node in value
            )
    if isinstance(plan, Cache):
        changes["memory"] = Memory()
    return dataclasses.replace(plan, **changes)


def _require_enough(num_files: int, num_workers: int) -> None:
    if 0 <= num_files < num_workers:
        raise ValueError(
            "Sharding by files needs at least one file for each worker. Received: "
            f"{num_files} file(s) for {num_workers} workers. Use AutoShardPolicy.DATA "
            "or OFF, or write more files."
        )


def _no_files(plan: Node) -> ValueError:
    return ValueError(
        "Sharding by files needs a dataset that reads files, and nothing else. "
        f"Received: a plan with something else:\n{plan.explain()}\nUse "
        "AutoShardPolicy.DATA."
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Piece(Node):
    """One worker's piece of every batch."""

    source: Node
    num_workers: int
    index: int

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _PieceStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return self.source.spec

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN


class _PieceStream(PassingStream):
    def __init__(self, node: Piece, epoch: Epoch) -> None:
        self._source = node.source.open(epoch)
        self._node = node

    @override
    def take(self, limit: int) -> Columns | None:
        columns = self._source.take(1)
        self.structure = self._source.structure
        if columns is None:
            return None
        if np.ndim(columns[0][0]) == 0:
            raise ValueError(
                "Workers share each batch of a dataset. Received: elements that are no "
                "batches. Call `batch` with the global batch size first."
            )
        rows = len(columns[0][0])
        piece = split_batch(rows, self._node.num_workers)[self._node.index]
        return [np.asarray(column[0][piece])[None] for column in columns]
