"""`CheckpointManager`: keeps the newest checkpoints in a directory."""

from __future__ import annotations

import functools
import logging
import pathlib
from collections.abc import Callable
from typing import Any

from mirrax.cluster import step_record
from mirrax.errors import CheckpointDamagedError, NotFoundError
from mirrax.train import worker_sync
from mirrax.train.checkpoints import cleanup, numbered_checkpoints
from mirrax.train.checkpoints.checkpoint import Checkpoint, Path

_logger = logging.getLogger(__name__)


class CheckpointManager:
    """Keeps the newest checkpoints of a program in a directory.

    A directory that cannot be written to is an error of the first `save`, whatever the
    interval, and of a `restore_or_initialize` that finds nothing there.

    Args:
        checkpoint: The objects to save.
        directory: The directory; created if missing.
        max_to_keep: How many checkpoints to keep; None for all.
        checkpoint_name: The name before the number.
        save_interval: `save` writes at multiples of this many steps.
        asynchronous: Whether to write in the background.
        init_fn: Called by `restore_or_initialize` if there is no checkpoint.

    >>> import tempfile
    >>> import mirrax
    >>> checkpoint = mirrax.train.Checkpoint(weight=mirrax.Variable(1.0))
    >>> manager = mirrax.train.CheckpointManager(checkpoint, tempfile.mkdtemp())
    >>> manager.restore_or_initialize()
    >>> path = manager.save(100)
    >>> manager.latest_checkpoint == path
    True
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Path,
        max_to_keep: int | None = 5,
        checkpoint_name: str = "ckpt",
        save_interval: int = 1,
        asynchronous: bool = False,
        init_fn: Callable[[], object] | None = None,
    ) -> None:
        if not isinstance(checkpoint, Checkpoint):
            raise TypeError(
                "`checkpoint` must be a `mirrax.train.Checkpoint`. Received: "
                f"{checkpoint!r}. Write Checkpoint(model=...)."
            )
        if max_to_keep is not None and not _is_whole(max_to_keep, 1):
            raise ValueError(
                "`max_to_keep` is how many checkpoints are kept: a whole number from 1 "
                f"on, or None for all. Received: {max_to_keep!r}."
            )
        if not _is_whole(save_interval, 1):
            raise ValueError(
                "`save_interval` is a number of steps: a whole number from 1 on. "
                f"Received: {save_interval!r}."
            )
        if not checkpoint_name or pathlib.Path(checkpoint_name).name != checkpoint_name:
            raise ValueError(
                "`checkpoint_name` is the name of a file, without a folder. Received: "
                f"{checkpoint_name!r}. Name the folder in `directory`."
            )
        self._checkpoint = checkpoint
        self._directory = pathlib.Path(directory).absolute()
        self._max_to_keep = None if max_to_keep is None else int(max_to_keep)
        self._name = checkpoint_name
        self._interval = save_interval
        self._asynchronous = asynchronous
        self._init_fn = init_fn
        self._last_saved: int | None = None
        self._is_writable = False

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def directory(self) -> str:
        """Where the checkpoints are."""
        return str(self._directory)

    @property
    def checkpoints(self) -> list[str]:
        """The paths of all complete checkpoints, in the order of saving."""
        return [
            str(path)
            for path in numbered_checkpoints.numbered(self._directory, self._name)
        ]

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the newest complete checkpoint; None if there is none."""
        return next(reversed(self.checkpoints), None)

    def save(
        self, checkpoint_number: int | None = None, check_interval: bool = True
    ) -> str | None:
        """Writes a checkpoint and removes the oldest ones; returns its path.

        Args:
            checkpoint_number: Its number, such as the step; by default one more than
                the highest, regardless of the interval.
            check_interval: Whether to do nothing and return None unless the number has
                reached the next multiple of `save_interval`.
        """
        workers = worker_sync.current_peers()
        if checkpoint_number is None:
            self.wait()
            checkpoint_number = worker_sync.from_chief(workers, self._next_number())
            check_interval = False
        if not _is_whole(checkpoint_number, 0):
            raise ValueError(
                "`checkpoint_number` must be a whole number from 0 on, such as the "
                f"step. Received: {checkpoint_number!r}."
            )
        number = int(checkpoint_number)
        self._require_writable()
        step_record.report_step(number)
        if check_interval and not self._is_due(number):
            return None
        self.wait()
        if workers.is_chief:
            numbered_checkpoints.remove_partial(self._directory, self._name)
        path = self._checkpoint.write_numbered(
            self._directory / self._name, number, self._asynchronous, self._remove_old
        )
        self._last_saved = number
        return path

    def wait(self) -> None:
        """Waits for a background write, and raises if it failed."""
        self._checkpoint.wait()

    def restore_or_initialize(self) -> str | None:
        """Restores the newest readable checkpoint; returns its path.

        If there is none, calls `init_fn` and returns None. Raises
        `CheckpointDamagedError` if there are checkpoints, but all are damaged.
        """
        found = self._find_for_all()
        while True:
            try:
                return self._restore_newest(found)
            except NotFoundError:
                # Another program that trains may have removed it, and saved newer ones.
                before, found = found, self._find_for_all()
                if found == before:
                    raise

    def _find_for_all(self) -> list[str]:
        return worker_sync.from_chief(worker_sync.current_peers(), self.checkpoints)

    def _restore_newest(self, found: list[str]) -> str | None:
        for path in reversed(found):
            try:
                self._checkpoint.restore(path)
            except CheckpointDamagedError as error:
                if path == found[0]:
                    # To start anew would replace what may be all of the user's work.
                    raise
                _logger.warning("%s Trying the one before it.", error)
                continue
            self._last_saved = numbered_checkpoints.number_of(pathlib.Path(path))
            step_record.report_start(self._last_saved)
            return path
        self._require_writable()
        if self._init_fn is not None:
            self._init_fn()
        step_record.report_start(0)
        return None

    def _require_writable(self) -> None:
        if not self._is_writable:
            check = functools.partial(
                numbered_checkpoints.require_writable, self._directory
            )
            peers = worker_sync.current_peers()
            worker_sync.write_on_chief(peers, self._directory, check)
            self._is_writable = True

    def _is_due(self, number: int) -> bool:
        # Programs that skip numbers may skip the multiples.
        periods = number // self._interval, (self._last_saved or 0) // self._interval
        return number % self._interval == 0 or periods[0] != periods[1]

    def _next_number(self) -> int:
        found = numbered_checkpoints.numbered(self._directory, self._name)
        return 1 + max(
            int(self._checkpoint.save_counter),
            *map(numbered_checkpoints.number_of, found),
            0,
        )

    def _remove_old(self) -> None:
        if self._max_to_keep is not None:
            found = numbered_checkpoints.numbered(self._directory, self._name)
            for path in found[: -self._max_to_keep]:
                cleanup.remove(path)


def _is_whole(value: Any, minimum: int) -> bool:
    """Returns whether a number, an array or a variable is whole and large enough."""
    try:
        is_whole = not isinstance(value, str) and float(int(value)) == float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return is_whole and int(value) >= minimum
