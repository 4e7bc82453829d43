"""What the workers of a job tell each other about a checkpoint."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from mirrax.context import stack
from mirrax.errors import CheckpointMismatchError
from mirrax.train.contents import Entry, PositionEntry
from mirrax.train.party import Alone, Party


def current_party() -> Party:
    """Returns the workers that save together."""
    frame = stack.frame()
    job = None if frame is None else getattr(frame.strategy, "job", None)
    return Alone() if job is None else job


def agree(
    workers: Party, path: pathlib.Path, entries: Mapping[str, Entry]
) -> dict[str, list[Any]]:
    """Lets all workers check that they save the same.

    Returns the positions of each iterator, one for each worker.
    """
    positions = {
        name: entry.get()
        for name, entry in entries.items()
        if isinstance(entry, PositionEntry)
    }
    own = {"path": path.name, "names": sorted(entries), "positions": positions}
    answers = workers.exchange("saving a checkpoint", json.dumps(own).encode())
    everybody = [json.loads(answer) for answer in answers]
    for index, other in enumerate(everybody):
        if (other["path"], other["names"]) != (own["path"], own["names"]):
            raise CheckpointMismatchError(
                "All workers must save the same objects under the same name. Received: "
                f"worker {workers.worker_index} saves '{own['path']}' with "
                f"{own['names']}, worker {index} saves '{other['path']}' with "
                f"{other['names']}."
            )
    return {name: [o["positions"][name] for o in everybody] for name in positions}


def own_positions(
    workers: Party, path: pathlib.Path, plain: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what is not an array, with this worker's position of each iterator."""
    own = {}
    for name, value in plain.items():
        if not isinstance(value, list):
            own[name] = value
        elif len(value) == workers.num_workers:
            own[name] = value[workers.worker_index]
        elif all(position == value[0] for position in value):
            own[name] = value[0]
        else:
            raise CheckpointMismatchError(
                f"The iterator '{name}' in '{path}' had another position on each of "
                f"{len(value)} workers, so it cannot go on with {workers.num_workers}. "
                f"Use {len(value)} workers, or leave the iterator out."
            )
    return own


def tell(workers: Party, problem: str) -> str:
    """Tells all workers whether the chief has written; returns what it says."""
    return workers.exchange("writing a checkpoint", problem.encode())[0].decode()
