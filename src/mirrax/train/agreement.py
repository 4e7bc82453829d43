"""What the workers of a job tell each other about a checkpoint."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from mirrax.cluster import current_job
from mirrax.devices.peers import Alone, Peers, exchange_json
from mirrax.errors import CheckpointMismatchError, NotFoundError
from mirrax.train.contents import Entry, PositionEntry


def current_peers() -> Peers:
    """Returns the workers that save together."""
    return current_job() or Alone()


def agree(
    workers: Peers, path: pathlib.Path, entries: Mapping[str, Entry]
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
    everybody = exchange_json(workers, "saving a checkpoint", own)
    for index, other in enumerate(everybody):
        if (other["path"], other["names"]) != (own["path"], own["names"]):
            raise CheckpointMismatchError(
                "All workers must save the same objects under the same name. Received: "
                f"worker {workers.worker_index} saves '{own['path']}' with "
                f"{own['names']}, worker {index} saves '{other['path']}' with "
                f"{other['names']}."
            )
    return {name: [o["positions"][name] for o in everybody] for name in positions}


def own_positions(workers: Peers, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is not an array, with this worker's position of each iterator.

    Another number of workers than saved them gets the positions of all.
    """
    own = {}
    for name, value in plain.items():
        if not isinstance(value, list):
            own[name] = value
        elif len(value) == workers.num_workers:
            own[name] = value[workers.worker_index]
        elif all(position == value[0] for position in value):
            own[name] = value[0]
        else:
            own[name] = value
    return own


def require_everywhere(workers: Peers, path: pathlib.Path, is_there: bool) -> None:
    """Raises unless all workers restore the same checkpoint, and can read it."""
    own = {"path": path.name, "is_there": is_there}
    everybody = exchange_json(workers, "restoring a checkpoint", own)
    names = [other["path"] for other in everybody]
    if len(set(names)) > 1:
        raise CheckpointMismatchError(
            f"All workers must restore the same checkpoint. Received: {names}, in the "
            "order of the workers. Let `restore_or_initialize` choose for all."
        )
    missing = [i for i, other in enumerate(everybody) if not other["is_there"]]
    if missing and len(missing) < len(everybody):
        raise NotFoundError(
            f"All workers must be able to read the checkpoint. Received: '{path}', "
            f"which worker(s) {missing} cannot see. Use a directory that all workers "
            "share."
        )


def choose(workers: Peers, candidates: list[str]) -> list[str]:
    """Returns the checkpoints that the chief sees."""
    chosen: list[str] = exchange_json(workers, "choosing a checkpoint", candidates)[0]
    return chosen


def tell(workers: Peers, problem: str) -> str:
    """Tells all workers whether the chief has written; returns what it says."""
    return workers.exchange("writing a checkpoint", problem.encode())[0].decode()
