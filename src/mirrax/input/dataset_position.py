"""Saved positions of distributed datasets, for any number of workers.

A position has the next row of each pipeline. A pipeline is what one worker reads;
workers that all read the same data share one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mirrax.data.iterator import invalid_position, seal, unseal
from mirrax.data.plan.streams import as_count

RowState = tuple[Any, int]
"""The position before a batch, and how many of its rows were used."""


@dataclasses.dataclass(frozen=True)
class DatasetPosition:
    """A position of a distributed dataset.

    Args:
        is_per_worker: Whether each worker has its own dataset, not a shard of one.
        has_ended: Whether this worker has no more data.
    """

    step: int
    num_pipelines: int
    is_per_worker: bool
    rows: Mapping[int, RowState]
    has_ended: bool = False

    def dump(self) -> dict[str, Any]:
        rows = [[index, *state] for index, state in self.rows.items()]
        return seal({**vars(self), "rows": rows})

    def of(self, index: int) -> RowState:
        if index not in self.rows:
            raise ValueError(
                "Another number of workers needs the positions of all workers. "
                f"Received: none of worker {index} of {self.num_pipelines}. Save "
                "`save_state()` on every worker, and give `restore_state` a list of "
                "them all."
            )
        return self.rows[index]


def load(state: Any) -> DatasetPosition:
    """Loads the dump of one worker, or a list of the dumps of several."""
    dumps = state if isinstance(state, list) else [state]
    positions = [_load_one(dump) for dump in dumps]
    if not positions:
        raise invalid_position(state, "no position")
    last = max(positions, key=lambda position: position.step)
    if any(p.step != last.step and not p.has_ended for p in positions):
        raise ValueError(
            "The positions of workers must all be saved after the same step. Received: "
            f"positions after {sorted({p.step for p in positions})} step(s). Give "
            "those that the workers saved together."
        )
    rows = {i: state for position in positions for i, state in position.rows.items()}
    return dataclasses.replace(last, rows=rows)


def _load_one(dump: Any) -> DatasetPosition:
    dump = unseal(dump)
    if "rows" not in dump:
        raise invalid_position(dump, "one of a dataset that is not distributed")
    rows = dict(map(_load_row, dump["rows"]))
    position = DatasetPosition(**{**dump, "rows": rows})
    as_count(position.step)
    as_count(position.num_pipelines)
    return position


def _load_row(dumped: Any) -> tuple[int, RowState]:
    if not isinstance(dumped, list) or len(dumped) != 3:
        raise TypeError(f"{dumped!r} is no row")
    index, state, used = dumped
    return as_count(index), (state, as_count(used))


def require_pipelines(position: DatasetPosition, count: int) -> None:
    """Raises unless a position has `count` pipelines."""
    if position.num_pipelines != count:
        raise ValueError(
            "This position can only be restored on as many workers as saved it, for a "
            "dataset that is shared in the same way. Received: a position of "
            f"{position.num_pipelines} input pipeline(s), for {count}. Use "
            "AutoShardPolicy.DATA or FILE for positions that fit any number of workers."
        )
