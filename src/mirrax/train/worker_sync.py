"""Agreement of the workers of a job on a checkpoint."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mirrax.cluster import current_job
from mirrax.devices.peers import NoPeers, Peers, exchange_json
from mirrax.errors import (
    CheckpointDamagedError,
    CheckpointMismatchError,
    CheckpointWriteError,
    NotFoundError,
)
from mirrax.train.checkpoints import manifest, numbered_checkpoints
from mirrax.train.checkpoints.saved_values import Entry

T = TypeVar("T")

# A program tries an older checkpoint after some of them, on all workers alike.
_ERRORS = {kind.__name__: kind for kind in (CheckpointDamagedError, NotFoundError)}


def current_peers() -> Peers:
    """Returns the workers that save together."""
    return current_job() or NoPeers()


def check_same_objects(
    workers: Peers, path: pathlib.Path, entries: Mapping[str, Entry]
) -> dict[str, list[Any]]:
    """Checks that all workers save the same objects.

    Returns the positions of each iterator on all workers.
    """
    positions = {n: entry.get() for n, entry in entries.items() if entry.is_position}
    own = {
        "path": path.name,
        "directory": str(path.parent),
        "names": sorted(entries),
        "positions": positions,
    }
    answers = exchange_json(workers, "saving a checkpoint", own)
    own_number = numbered_checkpoints.number_of(path)
    for index, other in enumerate(answers):
        number = numbered_checkpoints.number_of(pathlib.Path(other["path"]))
        if (number, other["names"]) != (own_number, own["names"]):
            raise CheckpointMismatchError(
                "All workers must save the same objects under the same number. "
                f"Received: worker {workers.worker_index} saves '{own['path']}' with "
                f"{own['names']}, worker {index} saves '{other['path']}' with "
                f"{other['names']}. Use one number; names and directories may differ."
            )
    directory = answers[0]["directory"]
    if directory != own["directory"]:
        numbered_checkpoints.refer(path.parent, directory)
    return {name: [o["positions"][name] for o in answers] for name in positions}


def readable_path(workers: Peers, path: pathlib.Path) -> pathlib.Path:
    """Returns the path of a checkpoint: the chief's if there is none at our own.

    Workers may save under different paths; the chief has written to its own.
    """
    own = {"path": path.name, "directory": str(path.parent)}
    answer = exchange_json(workers, "finding a checkpoint", own)[0]
    if manifest.is_complete(path):
        return path
    chief = pathlib.Path(answer["directory"], answer["path"])
    number_of = numbered_checkpoints.number_of
    return chief if number_of(chief) == number_of(path) else chief.parent / path.name


def local_positions(workers: Peers, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON values, with this worker's position of each iterator.

    After a change of the number of workers, these are the positions of all.
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


def check_all_can_restore(
    workers: Peers, path: pathlib.Path, order: int | None, error: Exception | None
) -> None:
    """Raises unless all workers can restore the same checkpoint.

    Args:
        order: Which save it is of; None if it cannot be read.
        error: Why this worker cannot restore it, if so.
    """
    own = {"path": path.name, "order": order, "kind": "", "problem": str(error)}
    if error is not None:
        own["kind"] = type(error).__name__
    answers = exchange_json(workers, "restoring a checkpoint", own)
    names = [other["path"] for other in answers]
    if len(set(names)) > 1:
        raise CheckpointMismatchError(
            f"All workers must restore the same checkpoint. Received: {names}, in the "
            "order of the workers. Let `restore_or_initialize` choose for all."
        )
    for index, other in enumerate(answers):
        if error is not None and other["kind"] == own["kind"]:
            raise error
        if other["kind"]:
            raise _ERRORS.get(other["kind"], CheckpointMismatchError)(
                "All workers must be able to restore the checkpoint. Received: worker "
                f"{index} cannot: {other['problem']} Nothing was restored. Use a "
                "directory that all workers share."
            )
    if len({other["order"] for other in answers}) > 1:
        raise CheckpointMismatchError(
            "All workers must restore the same checkpoint. Received: on worker "
            f"{workers.worker_index} '{path}', which another worker has from another "
            "save. Nothing was restored. Use a directory that all workers share."
        )


def from_chief(workers: Peers, own: T) -> T:
    """Returns the chief's value."""
    return exchange_json(workers, "choosing a checkpoint", own)[0]


def write_on_chief(
    workers: Peers, what: pathlib.Path | str, write: Callable[[], None]
) -> None:
    """Calls `write` on the chief; raises on all workers if it fails there."""
    cause: Exception | None = None
    if workers.is_chief:
        try:
            write()
        except Exception as error:
            cause = error
    own = "" if cause is None else f"Received: {type(cause).__name__}: {cause}"
    if isinstance(cause, CheckpointWriteError):
        own = str(cause)
    problem = workers.exchange("writing a checkpoint", own.encode())[0].decode()
    if cause is not None:
        raise cause
    if problem:
        raise CheckpointWriteError(f"The chief could not write '{what}'. {problem}")
